"""Spoken words on their way to sounds."""
