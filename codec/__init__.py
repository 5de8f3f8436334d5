"""Speaking: text → audio, incrementally. Knows engines; no sockets, no asyncio, no clock but the sample count."""
