"""The embedded default models, as package data."""
