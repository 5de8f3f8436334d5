"""The exporter, which turns published checkpoints into model directories. Only graphs of other sizes than the released
ones need torch, and the daemon never imports this room."""
