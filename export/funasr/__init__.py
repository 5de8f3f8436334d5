"""Fun-ASR-Nano checkpoints."""
