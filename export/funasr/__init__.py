"""Exporting Fun-ASR-Nano checkpoints."""
