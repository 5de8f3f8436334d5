"""What runs models: ONNX Runtime, llama.cpp, the queue before them and the store of model directories. Knows nothing of speech."""
