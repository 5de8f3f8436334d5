"""The hearsay command, one verb a file. The top floor: may know every room, no room knows it."""
