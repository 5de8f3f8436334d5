"""Speaking: codec, talker and predictor of `pocket-tts-en`, from data to a checkpoint in the official layout."""
