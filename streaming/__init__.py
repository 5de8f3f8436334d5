"""Hearing: audio goes in and text comes out while the audio still arrives. Nothing here knows a socket or asyncio."""
