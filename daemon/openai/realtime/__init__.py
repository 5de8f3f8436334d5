"""OpenAI's Realtime protocol (GA): one socket that hears, and answers by way of a chat endpoint and speaks."""
