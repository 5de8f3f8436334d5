"""The web page: live captions and speech, for people with a browser."""
