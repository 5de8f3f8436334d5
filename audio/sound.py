"""The sound of a container: one track of it, placed by its time stamps, as one channel at one rate.

Contract: the samples follow from the bytes alone. A file and a live stream both go through :func:`samples_of`, which
reads its source forwards in blocks of one size, so both give the same samples, bit for bit.

Time in a container is what its time stamps say: sound that begins late begins late here, and a hole is silence. A hole
of more than ``MOST_HOLE_SECONDS`` is taken for a broken time stamp and closed. So are holes that would make the silence
longer than ``MOST_HOLE_SECONDS`` and ``MOST_SILENT_SHARE`` times the sound together. Where a time stamp goes back by
more than ``RESTART_SECONDS`` another recording was joined. Packets that cannot be decoded are silence of their length.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from audio.ffmpeg import DAMAGED_PACKETS, Shapes, Unfit, open_container
from audio.pcm import MAX_CHANNELS, Mixer, Resampler, Samples, bounded

MOST_HOLE_SECONDS: Final = 600.0
"""A hole between packets, or before the first, is filled with silence up to this length; beyond it the time stamps are
taken to be broken."""
MOST_SILENT_SHARE: Final = 20
"""Beyond ``MOST_HOLE_SECONDS`` at most so many times as much silence is filled in as there is sound so far, so that a
small file cannot claim days of it. It is a choice: a recorder that leaves pauses out may be silent 20 hours of 21."""
RESTART_SECONDS: Final = 1.0
"""Time stamps that go back by more than this begin a new recording."""
JITTER_SECONDS: Final = 0.05
"""Differences between time stamps and sound below this one are ignored: Matroska rounds to milliseconds, and recorders
stamp a packet when they get round to it."""
HOLE_SECONDS: Final = 0.1
"""Holes of less are not told of: a clock that runs a little fast makes them by and by."""
MISSING_SECONDS: Final = 0.5
"""A sound that ends so much before the container says is cut off: encoders round, and leave out a few frames."""
CHOICE_SECONDS: Final = 10.0
"""Seconds of several tracks that are looked at before one of them is chosen."""
_SILENCE_SECONDS: Final = 1.0
"""Seconds of silence that are made at once."""
_AUDIBLE: Final = 10 ** (-55 / 20)
"""The root mean square of 50 ms, at −55 dBFS, below which nobody hears anything."""
MOST_DATA_BYTES: Final = 0x7E00_0000
"""A length of so many bytes or more is none: writers that cannot go back put some number near 2 GiB into the header, or
4, or -1."""
_WRITTEN_FIRST: Final = frozenset({"wav", "w64", "au", "aiff", "caf"})
"""FFmpeg's readers of formats that begin with their length, which whoever writes them live cannot know."""
_UNSTAMPED: Final = frozenset({"mp3", "aac", "flac", "wav", "w64", "au", "aiff", "caf", "amr"})
"""FFmpeg's readers of formats that have no time stamps. Their sound begins at 0."""

Speaks = Callable[[Samples], bool]
"""A function that tells whether somebody speaks in a second of sound, float32 mono at the rate that was asked for."""


def audible(second: Samples) -> bool:
    """Whether there is any sound in ``second``."""
    blocks = second[: second.size // 20 * 20].reshape(20, -1)
    return bool(blocks.size) and float(np.sqrt(np.mean(np.square(blocks), axis=1)).max()) > _AUDIBLE


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be heard of a container.

    Attributes:
        rate: of the samples, Hz.
        channel: take this one alone, 0…; None: all of them mixed.
        track: number of the track, 1…; None: the one that is flagged as default, else the first in which ``speaks``.
        speaks: tells speech from other sound where there are several tracks.
    """

    rate: int
    channel: int | None = None
    track: int | None = None
    speaks: Speaks = audible


@dataclass(slots=True)
class Notes:
    """What of a container was not as it should be. The fields are in the order in which people are told."""

    tracks: int = 1
    chosen: int = 1
    silent: float = 0.0
    """Seconds of packets that could not be decoded."""
    packets: int = 0
    """The number of those packets."""
    hushed: float = 0.0
    """Seconds of comfort noise of a telephone, which FFmpeg does not make."""
    holes: int = 0
    """The number of holes between time stamps that were filled with silence."""
    filled: float = 0.0
    """Seconds of that silence."""
    closed: int = 0
    """The number of holes that were too long to be filled, or too many."""
    cancelled: float = 0.0
    """Seconds of stereo whose channels cancel each other."""

    broken: bool = False
    """Whether the container could be read up to some place only."""
    missing: float = 0.0
    """Seconds that the container tells of and does not hold."""
    beyond: int = 0
    """The number of bytes behind the end that a WAV header tells, which are no chunk."""

    def ends(self, early: float) -> None:
        """Take down that the sound ends so many seconds before the container says."""
        self.missing = early if early > MISSING_SECONDS else 0.0

    def warnings(self) -> list[str]:
        """A sentence for each fault."""
        found: list[str] = []
        if self.tracks > 1:
            found.append(
                f"it has {self.tracks} tracks of sound: number {self.chosen} was heard (track chooses another)"
            )
        if self.packets:
            found.append(f"{self.packets} damaged packets of the audio were left out: {self.silent:.2f} s of silence")
        if self.hushed:
            found.append(f"{self.hushed:.2f} s of comfort noise were heard as silence")
        if self.holes:
            found.append(f"{self.holes} holes between time stamps were filled: {self.filled:.2f} s of silence")
        if self.closed:
            found.append(
                f"{self.closed} holes between time stamps were closed: longer than {MOST_HOLE_SECONDS:g} s, or all "
                f"longer than that and {MOST_SILENT_SHARE} times the sound"
            )
        if self.cancelled:
            found.append(f"its two channels cancel each other for {self.cancelled:.1f} s: there one alone was heard")
        if self.broken:
            found.append("it is damaged: nothing could be read from some place on, or its end is missing")
        elif self.missing:
            found.append(f"its end is missing: it tells of {self.missing:.1f} s more than it holds")
        if self.beyond:
            found.append(beyond(self.beyond))
        return found


def beyond(count: int) -> str:
    """The warning that ``count`` bytes follow the audio of a WAV."""
    return f"the WAV header tells where its audio ends: {count} bytes after it not heard"


def samples_of(
    source: Any, reader: str, wanted: Wanted, notes: Notes, *, live: bool = False, **arguments: Any
) -> Iterator[Samples]:
    """The sound of ``source``, in pieces of a frame or a second of silence, each made when it is asked for.

    Args:
        source: what FFmpeg reads from.
        reader: FFmpeg's name of the reader.
        notes: filled in on the way.
        live: the source is a stream, which may end before the end that was written at its beginning.
        arguments: of ``audio.ffmpeg.open_container``.

    Raises:
        Unfit: there is no sound in it that can be heard. FFmpeg's errors: it is damaged.
    """
    import av.error

    with open_container(source, reader, **arguments) as container:
        tracks = [Track(stream, wanted, notes, reader) for stream in container.streams.audio]
        if not tracks:
            raise Unfit("it holds no audio")
        notes.tracks = len(tracks)
        if wanted.track is not None:
            if not 1 <= wanted.track <= len(tracks):
                raise Unfit(f"it has {len(tracks)} tracks of sound, no number {wanted.track} (track)", track=True)
            tracks = [tracks[wanted.track - 1]]
        tracks = [track for track in tracks if track.decodable]
        if not tracks:
            raise Unfit("its sound lies in another file, or in a format that cannot be decoded here")
        choice = Choice(tracks, wanted, notes)
        origin = Fraction(0) if reader != "mpegts" else None
        promised = 0.0 if live and reader in _WRITTEN_FIRST else _promised(container)
        reached = 0.0
        try:
            for packet in container.demux():
                if packet.pts is not None:
                    reached = max(reached, float((packet.pts + (packet.duration or 0)) * packet.time_base))
                if origin is None and packet.pts is not None:
                    origin = packet.pts * packet.time_base
                yield from choice.take(packet, float(origin or 0))
        except av.error.InvalidDataError:
            if not choice.begun:
                raise
            notes.broken = True  # Most often the end of the file is missing.
        yield from choice.end()
        notes.ends(promised - max(reached, choice.seconds))


def _promised(container: Any) -> float:
    """The seconds that the header tells of, 0 where it does not. Of several lengths the least counts: pictures may be
    longer than the sound, and parts of it may be left out."""
    lengths = [(container.duration or 0) / 1_000_000]
    rate = 0
    for stream in container.streams.audio:
        lengths.append(float((stream.duration or 0) * (stream.time_base or 0)))
        rate = max(rate, (stream.codec_context.bit_rate or 0) if stream.codec_context is not None else 0)
    promised = min((one for one in lengths if one > 0), default=0.0)
    return promised if promised * rate / 8 < MOST_DATA_BYTES else 0.0


class Track:
    """One track of a container, whose packets become samples."""

    def __init__(self, stream: Any, wanted: Wanted, notes: Notes, reader: str) -> None:
        self._stream, self._wanted, self._notes = stream, wanted, notes
        self.index: int = stream.index
        context = stream.codec_context
        self.decodable = context is not None
        flags: Any = stream.disposition
        kind: Any = flags.__class__
        self.default = bool(flags & kind.default)
        if context is not None:
            context.thread_count = 1
        self._telephone = context is not None and context.name.startswith("amr")
        """Whether the codec is AMR, whose frames of comfort noise FFmpeg does not decode."""
        self._stamped = reader not in _UNSTAMPED
        self._shapes, self._sink = Shapes(), None if context is None else Sink(wanted, notes)
        self._base = 0.0
        """Seconds of sound that were made before the format last changed."""
        self._late = 0.0
        """Seconds that are taken off the time stamps, so that the sound begins at its place."""
        self.begun = False
        """Whether a frame was decoded."""
        self._may_be_empty = reader == "wav"
        """Whether a file without a single packet is a recording without samples: the header of a WAV file tells
        that."""
        self._lost = 0.0
        """Seconds of packets that could not be decoded, before the first one that could."""
        self._bad = 0
        """The number of damaged packets in a row."""
        self._filled = 0.0
        """Seconds of silence that were filled in."""

    @property
    def seconds(self) -> float:
        """Seconds of sound that were made so far."""
        return self._base + (0.0 if self._sink is None else self._sink.seconds)

    @property
    def _fillable(self) -> float:
        """The longest silence, in seconds, that may be filled in here."""
        sound = max(0.0, self.seconds - self._filled)
        silence = self._filled + self._lost
        return max(0.0, min(MOST_HOLE_SECONDS, MOST_HOLE_SECONDS + MOST_SILENT_SHARE * sound - silence))

    def take(self, packet: Any, origin: float) -> Iterator[Samples]:
        """The samples of a packet of this track. ``origin`` is the time stamp, in seconds, at which all tracks
        begin."""
        import av.error

        self._may_be_empty = self._may_be_empty and not packet.size
        try:
            frames = packet.decode()
        except (av.error.InvalidDataError, av.error.PatchWelcomeError):  # To some decoders damage is a new format.
            yield from self._lose(packet)
            return
        except ValueError as error:  # PyAV raises it itself where the decoder does not open.
            if isinstance(error, av.error.FFmpegError):
                raise
            raise Unfit("its header fits no decoder") from error
        for frame in frames:
            self._bad = 0
            yield from self._place(frame, origin)

    def end(self) -> Iterator[Samples]:
        """The samples that were held back."""
        if self._sink is not None:
            yield from self._sink.flush()
        if not self.begun and not self._may_be_empty:
            raise Unfit("no audio could be decoded")

    def _lose(self, packet: Any) -> Iterator[Samples]:
        """Give silence in place of a packet that cannot be decoded."""
        seconds = min(float((packet.duration or 0) * (packet.time_base or 0)), self._fillable)
        if self._telephone:
            self._notes.hushed += seconds
        else:
            self._bad += 1
            self._notes.packets += 1
            self._notes.silent += seconds
            if self._bad >= DAMAGED_PACKETS and not self.begun:
                raise Unfit(f"it is damaged: {self._bad} packets in a row cannot be decoded")
        if self._sink is not None and self._sink.open:
            self._filled += seconds
            yield from self._sink.silence(seconds)
        else:
            self._lost += seconds

    def _place(self, frame: Any, origin: float) -> Iterator[Samples]:
        sink = self._sink
        assert sink is not None
        if self._shapes.changed(frame):
            self._base += sink.seconds
            yield from sink.change(frame)
        if frame.pts is not None:
            at = float(frame.pts * frame.time_base) - origin
            if not self.begun and not self._stamped:
                self._late = at - self._lost
            self._lost = 0.0  # What was lost is a part of the hole before the first frame.
            hole = at - self._late - self.seconds
            if hole > self._fillable:
                self._notes.closed += self.begun
                self._late += hole
            elif hole > JITTER_SECONDS:
                self._filled += hole
                if self.begun and hole >= HOLE_SECONDS:
                    self._notes.holes += 1
                    self._notes.filled += hole
                yield from sink.silence(hole)
            elif hole < -RESTART_SECONDS:
                self._late += hole
        self.begun = True
        yield from sink.feed(frame)


class Sink:
    """Makes samples of the frames of a track: one or two channels are mixed as raw audio is, more of them by FFmpeg."""

    def __init__(self, wanted: Wanted, notes: Notes) -> None:
        self._wanted, self._notes = wanted, notes
        self._made, self._rate = 0, 1
        self._convert: Any = None
        self._mixer = Mixer(1)
        self._resampler: Resampler | None = None

    @property
    def open(self) -> bool:
        """Whether the format of the frames is known."""
        return self._resampler is not None

    @property
    def seconds(self) -> float:
        """Seconds of sound since the format last changed."""
        return self._made / self._rate

    def change(self, frame: Any) -> Iterator[Samples]:
        """The rest of the sound in the old format. The frames that follow are like ``frame``."""
        import av

        yield from self.flush()
        channels, one = len(frame.layout.channels), self._wanted.channel
        if not 0 < channels <= MAX_CHANNELS:
            raise Unfit(f"it has {channels} channels, the limit is {MAX_CHANNELS}")
        if one is not None and one >= channels:
            raise Unfit(f"it has {channels} channels, no number {one}")
        layout = "mono" if channels > 2 and one is None else frame.layout
        module: Any = av
        self._convert = module.AudioResampler(format="fltp", layout=layout, rate=frame.sample_rate)
        self._mixer = Mixer(1 if layout == "mono" else channels, one)
        self._made, self._rate = 0, frame.sample_rate
        self._resampler = Resampler(frame.sample_rate, self._wanted.rate)

    def feed(self, frame: Any) -> Iterator[Samples]:
        """The samples of a frame."""
        for out in self._convert.resample(frame):
            yield from self._take(out)

    def silence(self, seconds: float) -> Iterator[Samples]:
        """So many seconds of silence."""
        assert self._resampler is not None
        left = round(seconds * self._rate)
        self._made += left
        while left > 0:
            size = min(left, round(_SILENCE_SECONDS * self._rate))
            yield self._resampler.feed(np.zeros(size, np.float32))
            left -= size

    def flush(self) -> Iterator[Samples]:
        """The samples that were held back."""
        if self._resampler is None:
            return
        for out in self._convert.resample(None):
            yield from self._take(out)
        yield self._resampler.flush()
        self._notes.cancelled += self._mixer.cancelled / self._rate
        self._resampler = None

    def _take(self, frame: Any) -> Iterator[Samples]:
        assert self._resampler is not None
        planes: npt.NDArray[np.float32] = frame.to_ndarray()
        self._made += planes.shape[1]
        yield self._resampler.feed(self._mixer.mix(bounded(planes).T))


class Choice:
    """The choice of the one track that is heard. Until it is made, the sound of all of them waits, ``CHOICE_SECONDS``
    at most."""

    def __init__(self, tracks: Sequence[Track], wanted: Wanted, notes: Notes) -> None:
        """Begin with all ``tracks``, of which there is at least one."""
        flagged = [track for track in tracks if track.default]
        self._numbers = {track.index: number + 1 for number, track in enumerate(tracks)}
        self._order = sorted(tracks, key=lambda track: not track.default)
        self._tests: dict[int, Speaks] = {track.index: wanted.speaks for track in tracks}
        if len(flagged) == 1:
            # Whoever made the file says that this is the track to hear, so any sound will do.
            self._tests[flagged[0].index] = audible
        self._rate, self._notes = wanted.rate, notes
        self._held = {track.index: _Held() for track in tracks}
        self._chosen: Track | None = None
        if wanted.track is not None:
            notes.chosen = wanted.track
        if len(tracks) == 1:
            self._choose(tracks[0], keep=wanted.track is not None)

    @property
    def begun(self) -> bool:
        """Whether there was any sound."""
        return any(track.begun for track in self._order)

    @property
    def seconds(self) -> float:
        """Seconds of sound of the longest track that may still be heard."""
        return max(track.seconds for track in self._order)

    def take(self, packet: Any, origin: float) -> Iterator[Samples]:
        """The samples that ``packet``, of whatever stream of the container, adds to the chosen track."""
        track = next((one for one in self._order if one.index == packet.stream.index), None)
        if track is None:
            return
        for piece in track.take(packet, origin):
            if self._chosen is track:
                yield piece
            elif self._chosen is None:
                held = self._held[track.index]
                held.add(piece, self._rate, self._tests[track.index])
                if held.found and track is self._order[0]:
                    yield from self._choose(track)
                elif track.seconds >= CHOICE_SECONDS:
                    yield from self._choose(self._best())
            if self._chosen is not None and self._chosen is not track:
                return

    def end(self) -> Iterator[Samples]:
        """The rest of the samples."""
        if self._chosen is None:
            for track in self._order:
                self._held[track.index].add(np.zeros(self._rate, np.float32), self._rate, self._tests[track.index])
                self._held[track.index].pieces.pop()
            yield from self._choose(self._best())
        assert self._chosen is not None
        yield from self._chosen.end()

    def _best(self) -> Track:
        spoken = [track for track in self._order if self._held[track.index].found]
        heard = [track for track in self._order if self._held[track.index].audible]
        return (spoken or heard or self._order)[0]

    def _choose(self, track: Track, *, keep: bool = False) -> list[Samples]:
        """Hear ``track`` from now on; returns the samples of it that waited."""
        self._chosen, self._order = track, [track]
        if not keep:
            self._notes.chosen = self._numbers[track.index]
        held, self._held = self._held[track.index].pieces, {}
        return held


@dataclass(slots=True)
class _Held:
    """The beginning of a track, and whether some second of it has what is looked for."""

    pieces: list[Samples] = field(default_factory=list[Samples])
    found: bool = False
    audible: bool = False
    _rest: Samples = field(default_factory=lambda: np.zeros(0, np.float32))

    def add(self, piece: Samples, rate: int, test: Speaks) -> None:
        """Add the next piece of the track."""
        self.pieces.append(piece)
        if self.found:
            return
        self._rest = np.concatenate([self._rest, piece])
        while self._rest.size >= rate and not self.found:
            self.audible = self.audible or audible(self._rest[:rate])
            self.found = test(self._rest[:rate])
            self._rest = self._rest[rate:]
