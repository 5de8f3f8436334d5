"""The Wyoming protocol, by which Home Assistant hears and speaks: events over TCP."""
