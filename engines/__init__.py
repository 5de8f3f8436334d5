"""What runs models: ONNX Runtime, llama.cpp, the lane before them and the store. Knows nothing of speech."""
