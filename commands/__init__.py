"""The hearsay command, one verb a file. This is the top floor: it may know every room, and no room knows it."""

from engines.threads import hold_blas

hold_blas()
