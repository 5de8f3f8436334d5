"""The servers that people run around Whisper: whisper-asr-webservice, whisper.cpp."""
