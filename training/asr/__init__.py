"""Hearing: labels, training and checkpoints of `pocket-asr-en`, a small Qwen3-ASR whose encoder begins as Whisper
base's. `python -m training.asr` lists the stages."""
