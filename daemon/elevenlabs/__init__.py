"""ElevenLabs' API, as its SDKs ask for it."""
