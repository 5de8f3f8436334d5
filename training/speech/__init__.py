"""Speech for training is made by Kokoro-82M, whose network is restated in torch here and batched for a GPU."""
