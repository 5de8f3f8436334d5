"""What runs models: ONNX Runtime, llama.cpp, the lanes before them and the store. Knows nothing of speech."""

import os

# libgomp's threads spin before they sleep. ggml meets a barrier after every operator, so some spinning pays; the
# default (milliseconds) starves whoever else needs the core. libgomp reads this once, when llama.cpp loads it.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")
