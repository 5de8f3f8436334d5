"""Speaking: text in, audio out, incrementally. No sockets and no asyncio in here."""
