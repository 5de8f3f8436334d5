"""Hearing: audio in, text out, incrementally. No sockets and no asyncio in here."""
