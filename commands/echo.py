"""The demo's second half: what was heard is said again, word by word as a language model writes, and heard again.

Three sessions' worth of things happen at once, as they would between two machines: words go up, audio comes back, and
as much of it as a listener has played by then goes to be heard. The listener is a clock; a loudspeaker may play along.
"""

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from clients.playback import Loudspeaker
    from clients.speech import AsyncSpeech
    from clients.stream import AsyncStream

SEED = 1
"""The seed of the voice: the demo says the same in the same way each time."""
WORDS_PER_SECOND = 5.0
"""Words a second in which the text is told: the pace of a small language model."""
RATE = 24_000
"""Hertz: the rate of the speaking model."""
LEAD_SECONDS = 1.5
"""Seconds by which the listener is behind the first audio. A voice reads one token of text a frame, 12.5 a second, and
words at the pace of speech bring nine. So audio comes more slowly than it plays until a long sentence is written to its
end."""
PIECE_SECONDS = 0.05
"""Seconds of audio in a message, as a microphone sends it."""
_BYTES_PER_SECOND = 2 * RATE


@dataclass(slots=True)
class Echo:
    """What the echo gave. Times are in seconds."""

    heard: list[str] = field(default_factory=list[str])
    began: float = 0.0
    """``time.monotonic()`` at which the first word was written."""
    first_audio: float = 0.0
    """Seconds from then to the first audio."""
    seconds: float = 0.0
    under_runs: int = 0
    warnings: list[str] = field(default_factory=list[str])


class _Tape:
    """The audio between the one who speaks and the one who listens."""

    def __init__(self) -> None:
        from clients.clock import PlaybackClock

        self.clock = PlaybackClock(LEAD_SECONDS)
        self._audio = bytearray()
        self._news = asyncio.Condition()
        self._ended = False
        self._plays_at = 0.0
        """The time at which the byte behind the last one given away is played."""

    async def put(self, pcm: bytes) -> None:
        """Add audio that came."""
        now = time.monotonic()
        gap = self.clock.add(len(pcm) / _BYTES_PER_SECOND, now)
        async with self._news:
            if gap:
                self._plays_at = now + gap
            self._audio += pcm
            self._news.notify_all()

    async def end(self) -> None:
        """Say that no more audio comes."""
        async with self._news:
            self._ended = True
            self._news.notify_all()

    async def play(self) -> bytes:
        """The next piece, at the time at which its last sample is played; it is empty after the last piece."""
        async with self._news:
            await self._news.wait_for(lambda: self._audio or self._ended)
            piece = bytes(self._audio[: round(PIECE_SECONDS * _BYTES_PER_SECOND)])
            del self._audio[: len(piece)]
        self._plays_at += len(piece) / _BYTES_PER_SECOND
        await asyncio.sleep(self._plays_at - time.monotonic())
        return piece


async def echo(
    url: str,
    key: str | None,
    text: str,
    console: "Console",
    *,
    model: str | None = None,
    loudspeaker: "Loudspeaker | None" = None,
) -> Echo:
    """Say ``text`` (sentences with their marks) through the daemon at ``url``, and hear it.

    Args:
        model: name of the speaking model to ask for; the daemon's own without.

    Raises:
        Refused: no daemon there, or it does not speak.
        ListenError: a session broke.
    """
    from contextlib import nullcontext

    from clients.captions import Captions
    from clients.events import Results
    from clients.options import StreamOptions
    from clients.speech import AsyncSpeech, SpeechOptions
    from clients.stream import AsyncStream

    found, tape = Echo(), _Tape()
    async with (
        loudspeaker or nullcontext(),
        AsyncSpeech(url, SpeechOptions(model=model, sample_rate=RATE, seed=SEED), key=key) as speech,
        AsyncStream(url, StreamOptions(sample_rate=RATE), key=key) as stream,
        asyncio.TaskGroup() as tasks,
    ):
        tasks.create_task(_write(speech, text, found))
        tasks.create_task(_receive(speech, tape, found, loudspeaker))
        tasks.create_task(_listen(stream, tape))
        with Captions(console) as screen:
            async for event in stream:
                screen.show(event)
                if isinstance(event, Results) and event.is_final and event.text:
                    found.heard.append(event.text)
    found.under_runs = tape.clock.under_runs
    return found


async def _write(speech: "AsyncSpeech", text: str, found: Echo) -> None:
    for word in text.split():
        found.began = found.began or time.monotonic()
        await speech.speak(f"{word} ")
        await asyncio.sleep(1 / WORDS_PER_SECOND)
    await speech.close_speech()


async def _receive(speech: "AsyncSpeech", tape: _Tape, found: Echo, loudspeaker: "Loudspeaker | None") -> None:
    from clients.speech import Audio, SpeechWarning

    async for event in speech:
        match event:
            case Audio():
                if not found.first_audio:
                    found.first_audio = time.monotonic() - found.began
                found.seconds += len(event.data) / _BYTES_PER_SECOND
                await tape.put(event.data)
                if loudspeaker is not None:
                    await loudspeaker.write(event.data)
            case SpeechWarning():
                found.warnings.append(event.message)
            case _:
                pass
    await tape.end()


async def _listen(stream: "AsyncStream", tape: _Tape) -> None:
    while piece := await tape.play():
        await stream.send(piece)
    await stream.close_stream()
