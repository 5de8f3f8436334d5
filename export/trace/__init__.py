"""Tracing graphs from torch modules, for sizes that were not released, and to make and check those that export/known.py
keeps. Needs torch and onnx."""
