"""Speech made for training by Kokoro-82M, its network restated in torch and batched for a GPU."""
