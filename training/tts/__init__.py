"""Speaking: codec, talker and predictor of `pocket-tts-en`, from data to an official-layout checkpoint."""
