"""What stands before a person: talks to the daemon only over its public protocols.

``stream``, ``speech``, ``transcription`` and ``voices`` speak to a daemon; ``microphone``, ``captions`` and
``playback`` to a person.
"""
