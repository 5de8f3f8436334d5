"""The asyncio service: one protocol a file, thin, around the sans-I/O cores."""
