"""pocket-asr: a small Qwen3-ASR trained from scratch. `python -m training.asr` lists the stages."""
