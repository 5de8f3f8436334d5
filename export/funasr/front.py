"""Kaldi's mel filters, and the mean and variance that some checkpoints have."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from export.checkpoint import CheckpointError
from export.funasr.dims import FrontDims

LOW_HZ = 20.0
"""The lowest frequency of the filters. The highest is the Nyquist frequency. Both are Kaldi's defaults, which funasr's
WavFrontend keeps."""


def n_fft(front: FrontDims) -> int:
    """The length of the Fourier transform: the least power of two that is not shorter than a frame."""
    return 1 << (front.frame_length - 1).bit_length()


def kaldi_filters(front: FrontDims) -> NDArray[np.float32]:
    """The filters, float32 [bins, n_fft // 2 + 1], which are triangles on the scale mel = 1127 · ln(1 + Hz / 700). The
    last column, the Nyquist frequency, is 0, as in Kaldi."""
    count = n_fft(front)

    def mel(hertz: NDArray[np.float64]) -> NDArray[np.float64]:
        return 1127.0 * np.log1p(hertz / 700.0)

    low, high = mel(np.array([LOW_HZ, front.sample_rate / 2]))
    edges = low + (high - low) / (front.bins + 1) * np.arange(front.bins + 2)
    centres = mel(np.arange(count // 2) * front.sample_rate / count)
    rising = (centres[None] - edges[:-2, None]) / (edges[1:-1] - edges[:-2])[:, None]
    falling = (edges[2:, None] - centres[None]) / (edges[2:] - edges[1:-1])[:, None]
    return np.pad(np.maximum(0.0, np.minimum(rising, falling)), ((0, 0), (0, 1))).astype(np.float32)


def read_cmvn(file: Path, width: int) -> NDArray[np.float32]:
    """Read shift and scale, float32 [2, width], from a file of Kaldi's nnet1 (``am.mvn``).

    Raises:
        CheckpointError: there is no such file, or its values have another shape.
    """
    try:
        lines = [line.split() for line in file.read_text(encoding="utf-8").splitlines()]
        rows = [
            [float(value) for value in lines[at + 1][3:-1]]
            for at, line in enumerate(lines)
            if line and line[0] in ("<AddShift>", "<Rescale>")
        ]
        found = np.array(rows, np.float32)
    except FileNotFoundError:
        raise CheckpointError(f"{file.parent} holds no {file.name}") from None
    except (ValueError, IndexError) as error:
        raise CheckpointError(f"{file}: no shift and scale ({error})") from None
    if found.shape != (2, width):
        raise CheckpointError(f"{file}: shift and scale have shape {list(found.shape)}, not {[2, width]}")
    return found
