"""The client of hearsay: live hearing, live speech, transcription of files and voices, from a daemon anywhere.

::

    from hearsay import Results, Stream, StreamOptions

    with Stream("http://127.0.0.1:8750", StreamOptions(sample_rate=16000)) as stream:
        stream.send(pcm)                # 16-bit samples, in pieces of any size
        stream.close_stream()           # no more audio; iteration ends after the last final
        for event in stream:
            if isinstance(event, Results) and event.is_final:
                print(event.text)

``Speech`` speaks text while it is being written, ``transcribe`` transcribes a file, ``voices`` lists the voices.
``AsyncStream`` and ``AsyncSpeech`` are the same for asyncio, and ``listen`` is a whole live session. A stream whose
connection breaks resumes at any of the daemons it was given. Everything here talks to a daemon (``hearsay serve``) by
its public protocols and imports nothing of it.
"""

from pathlib import Path

if not (Path(__file__).parent / "clients").is_dir():
    # In the repository the rooms lie beside this folder; in an installed package they lie inside it.
    __path__.append(str(Path(__file__).parent.parent))

from .clients.events import (
    Event,
    Fault,
    ListenError,
    Metadata,
    ProtocolError,
    Results,
    SpeakerMerged,
    SpeakerNamed,
    SpeechStarted,
    UtteranceEnd,
    Word,
)
from .clients.handshake import Lost, Refused
from .clients.options import StreamOptions
from .clients.resume import Disconnected, Reconnected
from .clients.speech import (
    AsyncSpeech,
    Audio,
    Cleared,
    Flushed,
    Piece,
    Speech,
    SpeechEvent,
    SpeechMetadata,
    SpeechOptions,
    SpeechWarning,
    SpokenWord,
)
from .clients.stream import AsyncStream, Stream, StreamEvent, listen
from .clients.transcription import Transcription, transcribe
from .clients.voices import Voice, add_voice, remove_voice, voices

__all__ = [
    "AsyncSpeech",
    "AsyncStream",
    "Audio",
    "Cleared",
    "Disconnected",
    "Event",
    "Fault",
    "Flushed",
    "ListenError",
    "Lost",
    "Metadata",
    "Piece",
    "ProtocolError",
    "Reconnected",
    "Refused",
    "Results",
    "SpeakerMerged",
    "SpeakerNamed",
    "Speech",
    "SpeechEvent",
    "SpeechMetadata",
    "SpeechOptions",
    "SpeechStarted",
    "SpeechWarning",
    "SpokenWord",
    "Stream",
    "StreamEvent",
    "StreamOptions",
    "Transcription",
    "UtteranceEnd",
    "Voice",
    "Word",
    "add_voice",
    "listen",
    "remove_voice",
    "transcribe",
    "voices",
]
