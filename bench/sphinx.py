"""pocketsphinx 5 with its own US English model: an ear that this project did not train."""

import importlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from multiprocessing import get_context
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.ear import Progress, no_progress
from bench.row import NotMeasured
from engines.threads import budget

Floats = npt.NDArray[np.float32]

RATE: Final = 16_000


def texts(waves: Sequence[Floats], progress: Progress = no_progress) -> list[str]:
    """What it hears in recordings, float32 [n] at :data:`RATE`, each by itself; "" for nothing.

    Raises:
        NotMeasured: it is not installed.
    """
    if importlib.util.find_spec("pocketsphinx") is None:
        raise NotMeasured("needs pocketsphinx: pip install -e '.[eval]'")
    found = list[str]()
    with ProcessPoolExecutor(budget(None), get_context("spawn")) as pool:
        for text in pool.map(_text, waves):
            found.append(text)
            progress(len(found) / len(waves))
    return found


def _text(wave: Floats) -> str:
    decoder = _loaded()
    decoder.reinit_feat()  # forgets the cepstral mean of what was heard before: a text is the same in any order
    decoder.start_utt()
    decoder.process_raw(np.clip(wave * 32767, -32768, 32767).astype("<i2").tobytes(), full_utt=True)
    decoder.end_utt()
    heard = decoder.hyp()
    return str(heard.hypstr) if heard is not None else ""


@cache
def _loaded() -> Any:
    """One a process: loading takes as long as a few sentences."""
    pocketsphinx: Any = importlib.import_module("pocketsphinx")
    return pocketsphinx.Decoder(samprate=RATE, loglevel="FATAL")
