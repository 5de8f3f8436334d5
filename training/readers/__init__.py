"""A model that reads new sentences in the voices of recordings: more speech of the same readers for training/asr."""
