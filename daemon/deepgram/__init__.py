"""Deepgram's protocol."""
