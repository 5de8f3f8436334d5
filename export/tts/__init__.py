"""Qwen3-TTS checkpoints to ONNX and GGUF. Needs torch; never imported at run time."""
