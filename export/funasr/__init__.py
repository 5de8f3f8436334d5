"""Fun-ASR-Nano checkpoints: SenseVoice encoder, adaptor, Qwen3 decoder."""
