"""The second family, Fun-ASR-Nano: its front end, its conversation and how its whole clips are heard."""
