"""Text on its way to speech."""
