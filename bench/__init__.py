"""Measurements: every published number is one command here."""

from engines.threads import hold_blas

hold_blas()
