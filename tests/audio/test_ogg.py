"""Mending Ogg files: a stream that changes its serial number is read to its end again, packets untouched."""

import io
import struct

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from audio.ogg import checksum, mend


def opus(seconds: float) -> bytes:
    """An Ogg/Opus file of noise, as libsndfile writes it: a page a second."""
    file = io.BytesIO()
    noise = np.random.default_rng(0).normal(0, 0.1, int(16_000 * seconds))
    soundfile.write(file, noise, 16_000, format="OGG", subtype="OPUS")
    return file.getvalue()


WHOLE = opus(5.3)


def pages(data: bytes) -> list[bytes]:
    starts = [i for i in range(len(data)) if data[i : i + 5] == b"OggS\x00"]
    return [data[a:b] for a, b in zip(starts, [*starts[1:], len(data)], strict=True)]


def broken_from(page: int, serial: int = 77) -> bytes:
    """The file with another serial number, and a right checksum, from the given page on."""
    parts = pages(WHOLE)
    for i in range(page, len(parts)):
        blank = parts[i][:14] + struct.pack("<I", serial) + parts[i][18:22] + bytes(4) + parts[i][26:]
        parts[i] = blank[:22] + struct.pack("<I", checksum(blank)) + blank[26:]
    return b"".join(parts)


def test_checksums_are_libogg_s() -> None:
    """The checksum of every page of a file that libogg wrote is the one that it wrote."""
    assert len(pages(WHOLE)) >= 6
    for page in pages(WHOLE):
        assert checksum(page[:22] + bytes(4) + page[26:]) == struct.unpack_from("<I", page, 22)[0]


@pytest.mark.parametrize("page", range(3, len(pages(WHOLE))))
def test_a_broken_stream_is_mended(page: int) -> None:
    """Broken at any page, the reader loses the rest; mended, the file is the original, byte for byte."""
    broken = broken_from(page)
    assert len(soundfile.read(io.BytesIO(broken))[0]) < 5.2 * 16_000
    assert mend(broken) == WHOLE


def test_a_sound_file_stays() -> None:
    """A file with one serial number comes back as the same object."""
    assert mend(WHOLE) is WHOLE


@given(st.integers(1, len(WHOLE) - 1))
def test_a_file_cut_short_is_refused(length: int) -> None:
    """A file cut inside a page raises ValueError; one cut between pages is shorter but whole."""
    edges = np.cumsum([len(page) for page in pages(WHOLE)])
    if length in edges:
        assert mend(WHOLE[:length]) == WHOLE[:length]
    else:
        with pytest.raises(ValueError, match="ogg"):
            mend(WHOLE[:length])


@pytest.mark.parametrize("data", [b"RIFF" + bytes(40), b"OggS", WHOLE + b"x", pages(WHOLE)[1] + pages(WHOLE)[0]])
def test_what_is_no_ogg_file_is_refused(data: bytes) -> None:
    """Other bytes, trailing bytes and pages out of order raise ValueError."""
    with pytest.raises(ValueError, match="ogg"):
        mend(data)
