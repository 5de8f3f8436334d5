"""Exporting Qwen3-TTS checkpoints."""
