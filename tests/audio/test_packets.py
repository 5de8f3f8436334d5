"""Opus in packets over a line that is none too good."""

import random
from typing import Any, NamedTuple

import numpy as np
from av import AudioFrame, CodecContext

from audio.packets import FRAME_SAMPLES, PacketDecoder, PacketEncoder


class Arrival(NamedTuple):
    """What a packet of RTP brings."""

    number: int
    timestamp: int
    payload: bytes


def opus(count: int) -> list[Arrival]:
    """A tone, whose numbers and times begin anew in its middle."""
    codec: Any = CodecContext.create("libopus", "w")
    codec.sample_rate, codec.format, codec.layout = 48_000, "s16", "mono"
    found: list[Arrival] = []
    for place in range(count):
        tone = np.sin(np.arange(960 * place, 960 * (place + 1)) * 0.06) * 9000
        frame = AudioFrame.from_ndarray(tone.astype("<i2").reshape(1, -1), "s16", "mono")
        frame.sample_rate, frame.pts = 48_000, 960 * place
        numbers = (0xFFFF - count // 2 + place) & 0xFFFF, (0xFFFFFFFF + 960 * (place - count // 2)) & 0xFFFFFFFF
        found.append(Arrival(*numbers, bytes(codec.encode(frame)[0])))
    return found


def test_packets_come_in_any_order_and_some_never() -> None:
    """What comes out is as long as what was said; each packet that came is heard."""
    packets, chance, decoder = opus(400), random.Random(3), PacketDecoder()
    late = sorted(range(400), key=lambda place: 20 * place + 60 * chance.random())
    came = [place for place in late if chance.random() > 0.05 or place in (0, 399)]
    samples = np.frombuffer(b"".join(decoder.take(*packets[place]) for place in came), "<i2").reshape(-1, 960)
    assert len(samples) == 400 > len(came)
    loud = np.abs(samples).max(axis=1) > 3000
    assert all(loud[place] for place in came[5:]) and loud.sum() < 400


def test_a_packet_is_heard_at_once_where_none_is_missing() -> None:
    decoder = PacketDecoder()
    assert [len(decoder.take(*packet)) for packet in opus(20)] == [1920] * 20


def test_a_stream_that_begins_anew_is_heard_at_once() -> None:
    """As after a page was loaded again; what is no Opus is left out, and a long pause is not filled."""
    packets, decoder = opus(50), PacketDecoder()
    last = packets[9].number
    odd = [
        *packets[:10],
        Arrival((last + 1) & 0xFFFF, packets[10].timestamp, b"\xff" * 9),
        Arrival((last + 2) & 0xFFFF, packets[40].timestamp, packets[11].payload),
        Arrival((last + 3) & 0xFFFF, packets[41].timestamp, b""),
        *(Arrival((one.number - 20_000) & 0xFFFF, one.timestamp + 77, one.payload) for one in packets[40:]),
    ]
    assert sum(len(decoder.take(*packet)) for packet in odd) // 1920 == 10 + 1 + 10


def test_what_is_encoded_is_decoded() -> None:
    """Frames by their place; a short one ends in silence."""
    encoder, decoder = PacketEncoder(), PacketDecoder()
    tone = (np.sin(np.arange(25 * FRAME_SAMPLES) * 0.1) * 9000).astype("<i2").tobytes()
    pieces = [tone[start : start + 2 * FRAME_SAMPLES] for start in range(0, len(tone), 2 * FRAME_SAMPLES)]
    packets = [encoder.encode(piece, place) for place, piece in enumerate([*pieces, b"", b""], 7)]
    assert [packet.pts for packet in packets] == [place * FRAME_SAMPLES for place in range(7, 34)]
    heard = b"".join(decoder.take(n, 960 * n, bytes(packet)) for n, packet in enumerate(packets))
    levels = np.abs(np.frombuffer(heard, "<i2").reshape(-1, 960)).max(axis=1)
    assert levels[1:25].min() > 7000 and levels[26] < 3000
