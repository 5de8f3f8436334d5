"""One variant of the speaking model from speech to voice, up to a moment: codes first, then the decoder against its
discriminators beside talker and fine-tuning, which need the codes alone.

A stage that fails is tried once more without graphs; then the chain goes on with the newest checkpoint it left. Every
end is a share of the time that is there when the chain begins, so a late start shortens all stages alike.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from training.tts.stages import StageFailed, Stages

CODES, TALKER = 0.40, 0.86  # shares of the time at which the codes are frozen and the talker is turned to the voice
_CLOSING = 8.0  # seconds before the end at which the last stages stop


@dataclass(frozen=True)
class Chain:
    """until: seconds since the epoch. The GPUs may be one. start: codec to begin from."""

    config: Path
    name: str
    speech: tuple[Path, ...]
    tokenizer: Path
    out: Path
    until: float
    voice: str
    start: Path | None = None
    codec_gpu: int | None = None
    talker_gpu: int | None = None
    hours: float = 12.0
    device: str = "cuda"


def ends(begin: float, until: float) -> tuple[float, float, float]:
    """When codes are frozen, fine-tuning begins, and everything ends. ValueError where that leaves no time to train."""
    if until - begin < 60:
        raise ValueError(f"until: {until - begin:.0f} s from now; a chain needs at least 60")
    span = until - begin
    return begin + CODES * span, begin + TALKER * span, until - _CLOSING


def run_chain(chain: Chain) -> None:
    """Leaves out/codec, out/decoder, out/codes.npz, out/talker and out/fine."""
    c, out, stages = chain, chain.out, Stages(chain.config, chain.name)
    frozen, turned, closed = ends(time.time(), c.until)
    where = ["--device", c.device]
    speech = ["--speech", *c.speech]
    begin = ["--start", c.start] if c.start else []
    common = [*speech, "--hours", c.hours, *where]
    made = out / "codec/codec.safetensors"
    codec = [*common, "--out", out / "codec", "--until", frozen, "--part", "codes", *begin]
    stages.attempt("codec", codec, c.codec_gpu, frozen, ["--eager"])
    if not made.exists():
        raise StageFailed(f"{c.name}: no codec, so nothing to speak with")
    against = [*common, "--out", out / "decoder", "--until", closed, "--part", "decoder", "--start", made]
    decoder = stages.start("codec", against, c.codec_gpu)
    try:
        _speak(c, stages, made, turned, closed)
        code = decoder.wait()
        if code:
            stages.say(f"WARNING: decoder: ended with {code}")
            if time.time() < closed - 60:
                stages.attempt("codec", [*against, "--eager"], c.codec_gpu, closed, [])
    finally:
        stages.stop(decoder)
    stages.say("done")


def _speak(c: Chain, stages: Stages, codec: Path, turned: float, closed: float) -> None:
    """Codes of all speech, then talker and fine-tuning."""
    codes, where = c.out / "codes.npz", ["--device", c.device]
    encode = ["--codec", codec, "--speech", *c.speech, "--out", codes, *where]
    if not stages.attempt("encode", encode, c.talker_gpu, turned, []):
        return
    common = ["--codes", codes, "--tokenizer", c.tokenizer, *where]
    talker = c.out / "talker/model.safetensors"
    stages.attempt("talker", [*common, "--out", talker.parent, "--until", turned], c.talker_gpu, turned, ["--eager"])
    if not talker.exists():
        return
    fine = [*common, "--out", c.out / "fine", "--until", closed, "--start", talker, "--voice", c.voice]
    stages.attempt("talker", [*fine, "--evaluate-every", 150], c.talker_gpu, closed, ["--eager"])
