"""The hearsay command, one verb a file. The top floor: may know every room, no room knows it."""

from engines.threads import hold_blas

hold_blas()
