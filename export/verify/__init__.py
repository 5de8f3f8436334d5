"""Comparing exported models with the official code on their checkpoints. Needs torch and transformers."""
