"""Telephony: Twilio's media streams and Asterisk's AudioSocket, over the conversation of ``/v1/realtime``."""
