"""What stands before a person: talks to the daemon only over its public protocols.

``stream``, ``resume`` and ``transcription`` speak to a daemon, ``microphone`` and ``captions`` to a person.
"""
