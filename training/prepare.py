"""`python -m training.prepare OUT --data DATA` makes all that the runs of both models need, on a machine with a
network, and packs it into bundles for a machine that has none (training/bundles.py, training/card/).

A stage that is done already is skipped; what it made lies in `OUT/made`. The stages need torch, onnx, gguf and npm,
about half an hour of one core and 4 GB of memory.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from training.bundles import pack as pack_bundles
from training.clones import files as cloned
from training.packages import fetch

ROOT = Path(__file__).parents[1]
SENTENCES, DRILLS = 220_000, 45_000
"""How many lines Kokoro is given to say: sentences, and lines of what sentences seldom hold. At some 3 s a line they
last about 220 hours, as long as any stretch had Kokoro speak."""
WHEELS = "soundfile", "soxr", "cffi", "pycparser", "jiwer", "rapidfuzz", "click", "num2words", "msgspec"
"""Packages that a run imports beside torch, transformers, tokenizers, safetensors and numpy; requirements/dev.txt pins
them."""
PYTHONS = f"{sys.version_info[0]}.{sys.version_info[1]}", "3.12"
LEXICON = "misaki-0.9.4-py3-none-any.whl"
EAR, VOICE = ROOT / "models" / "pocket-asr-en", ROOT / "models" / "pocket-tts-en"
"""What ships, which both runs begin from; the voice's directory also tells how words sound."""
CODE = "training", "audio", "codec", "engines", "hearsay", "models"
"""Folders of the repository that a run imports from."""
REPOSITORIES = {
    "wiki-split": ".",
    "dstc8-schema-guided-dialogue": "train",
    "Taskmaster": ".",
    "OpenTriviaQA": ".",
    "whisper": "dataset",
    "speech-to-intent-benchmark": "data/speech/clean",
}
"""What is taken of each clone, by the repository's name (training/README.md)."""
# Lists of those Common Voice clips whose texts are known; the clips are in other tars already.
_KNOWN = "validated.tsv", "invalidated.tsv", "testing_data.tsv"


class Preparation:
    """The stages that fill one folder."""

    def __init__(self, out: Path, data: Path, clones: Path | None, sentences: int, drills: int) -> None:
        self.out, self.data, self.clones, self._counts = out, data, clones, (sentences, drills)
        self.packages, self.made = out / "packages", out / "made"
        self.shards = sorted((data / "speech").glob("en-train-0*.tar")) + [data / "speech" / "en-voice-00.tar"]
        self.never = self.made / "test-index.jsonl", self.made / "said.txt"
        self.sounds = "--model", VOICE, "--lexicon", self.packages / LEXICON
        self.made.mkdir(parents=True, exist_ok=True)

    def stages(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Give the stages in their order: the name of what a stage leaves in `made`, and what makes it."""
        yield "test-index.jsonl", self._tests
        yield "said.txt", self._said
        yield "wheels", self._wheels
        if self.clones is not None:
            yield "clones", self._clones
            yield "modern.txt", self._modern
            yield "en-train-04.tar", lambda: self._pack("whisper", "mp3", "Common Voice unlabelled", "CC0-1.0")
            yield (
                "en-train-05.tar",
                lambda: self._pack("speech-to-intent-benchmark", "wav", "Picovoice speech-to-intent", "Apache-2.0"),
            )
        yield "drills.txt", self._drills
        yield "drills.npz", lambda: self._phonemes("drills")
        yield "readers.tsv", lambda: self._speech("spell", *self.shards, *self.sounds, out="readers.tsv")
        yield "kokoro", lambda: self._speech("convert", self.packages, self._new("kokoro"))
        yield "whisper", lambda: self._asr("whisper", self.packages, self._new("whisper"))
        yield "ear", lambda: self._asr("shipped", EAR, out="ear")
        heard = sorted((self.data / "speech").glob("en-train-0*.tar"))
        yield (
            "start",
            lambda: self._asr("begin", EAR, "--teacher", self.made / "whisper", "--shards", *heard, out="start"),
        )
        yield "script.txt", self._sentences
        yield "script.npz", lambda: self._phonemes("script")
        yield "tokenizer", self._tokenizer
        yield "begin", lambda: self._tts("shipped", VOICE, out="begin")

    def run(self) -> None:
        """Do all stages, then pack the bundles."""
        fetch(self.packages)
        stages = list(self.stages())
        for number, (name, make) in enumerate(stages, 1):
            began, done = time.monotonic(), self.made / name
            if done.exists():
                print(f"[{number}/{len(stages)}] {name}: there", flush=True)
                continue
            make()
            self._new(name).rename(done)
            print(f"[{number}/{len(stages)}] {name}: {time.monotonic() - began:.0f} s", flush=True)
        shutil.copy(ROOT / "training" / "bundles.py", self.out)
        for name, files in (("hearing", self._hearing()), ("speaking", self._speaking())):
            made = pack_bundles(dict(files), self.out / "bundles", name)
            print(f"{name}: {len(made)} bundles, {sum(path.stat().st_size for path in made) / 1e6:.0f} MB", flush=True)

    def _new(self, name: str) -> Path:
        """Give the path that a stage writes to. What stands there is not whole; the stage's end renames it."""
        path = self.made / name
        return path.with_name(f"{path.stem}-new{path.suffix}")

    def _run(self, module: str, *arguments: object, out: str | None = None) -> None:
        more = [] if out is None else ["--out", self._new(out)]
        command = [sys.executable, "-m", module, *map(str, [*arguments, *more])]
        subprocess.run(command, cwd=ROOT, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})

    def _speech(self, *arguments: object, out: str | None = None) -> None:
        self._run("training.speech", *arguments, out=out)

    def _asr(self, *arguments: object, out: str | None = None) -> None:
        self._run("training.asr", *arguments, out=out)

    def _tts(self, *arguments: object, out: str | None = None) -> None:
        self._run("training.tts", *arguments, out=out)

    def _tests(self) -> None:
        from training.shards import index

        rows = index(self.data / "speech" / "en-test-00.tar")
        self._new("test-index.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def _said(self) -> None:
        with self._new("said.txt").open("wb") as file:
            for module in ("bench.sentences", "bench.reading"):
                subprocess.run([sys.executable, "-m", module], cwd=ROOT, check=True, stdout=file)

    def _wheels(self) -> None:
        pinned = (ROOT / "requirements" / "dev.txt").read_text()
        found = [re.search(rf"^{name}==.*?(?=^\S|\Z)", pinned, re.M | re.S) for name in WHEELS]
        asked = self._new("wheels.txt")
        asked.write_text("".join(one[0] for one in found if one))
        platforms = [f"--platform=manylinux_2_{n}_x86_64" for n in (28, 27, 24, 17)] + [
            "--platform=manylinux2014_x86_64"
        ]
        for python in PYTHONS:
            subprocess.run(
                [sys.executable, "-m", "pip", "download", "-qq", "--no-deps", "--only-binary=:all:", "--require-hashes",
                 f"--python-version={python}", "--implementation=cp", *platforms, "-r", asked,
                 "-d", self._new("wheels")],
                check=True,
            )  # fmt: skip
        asked.unlink()

    def _clones(self) -> None:
        assert self.clones is not None
        for name, under in REPOSITORIES.items():
            for found in sorted(self.clones.glob(f"*+{name}/repo")):
                print(f"{name}: {cloned(found, under, self._new('clones') / name)} files")
        self._new("clones").mkdir(exist_ok=True)

    def _modern(self) -> None:
        self._speech("modern", self.made / "clones", out="modern.txt")

    def _pack(self, name: str, kind: str, corpus: str, licence: str) -> None:
        folder = self.made / "clones" / name / REPOSITORIES[name]
        without = self._new("without.tsv")
        lists = [folder / known for known in _KNOWN]
        without.write_text("".join(path.read_text() for path in lists if path.exists()))
        clips = folder / "clips" if (folder / "clips").exists() else folder
        number = 4 if kind == "mp3" else 5
        self._asr("pack", clips, "--corpus", corpus, "--licence", licence, "--kind", kind, "--without", without,
                  out=f"en-train-0{number}.tar")  # fmt: skip
        without.unlink()

    def _sentences(self) -> None:
        modern = self.made / "modern.txt"
        more = ["--modern", modern] if modern.exists() else []
        fiction = self.data / "text" / "en-fiction.txt.xz"
        self._speech("text", "--count", self._counts[0], "--fiction", fiction, *more, "--never", *self.never,
                     out="script.txt")  # fmt: skip

    def _tokenizer(self) -> None:
        """Take the shipped one, by whose pieces the talker has learnt: it goes on with them in every stretch."""
        self._new("tokenizer").mkdir(exist_ok=True)
        shutil.copy(VOICE / "tokenizer.json", self._new("tokenizer"))

    def _drills(self) -> None:
        self._speech("drills", "--count", self._counts[1], "--never", *self.never, out="drills.txt")

    def _phonemes(self, name: str) -> None:
        self._speech("prepare", self.made / f"{name}.txt", *self.sounds, out=f"{name}.npz")

    def _below(self, *names: str) -> Iterator[tuple[str, Path]]:
        for name in names:
            path = self.made / name
            for file in sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []:
                if file.is_file():
                    yield str(file.relative_to(self.made)), file

    def _code(self) -> Iterator[tuple[str, Path]]:
        for folder in CODE:
            for file in sorted((ROOT / folder).rglob("*")):
                inside = file.relative_to(ROOT)
                if file.is_file() and "__pycache__" not in inside.parts and not str(inside).startswith("models/p"):
                    yield f"tree/{inside}", file

    def _recordings(self) -> Iterator[tuple[str, Path]]:
        yield from ((path.name, path) for path in self.shards)

    def _back(self, run: str) -> Iterator[tuple[str, Path]]:
        """Give what an earlier stretch left: labels, a `state`, the codec's `codec`, each in a folder of its own."""
        folder = self.out / "back" / run
        yield from ((f"back/{file.relative_to(folder)}", file) for file in sorted(folder.rglob("*")) if file.is_file())

    def _told(self, run: str) -> Iterator[tuple[str, Path]]:
        """Give labels and lists of parts that an earlier stretch left. They come early, because by them a script knows
        what will come and need not be made."""
        yield from (found for found in self._back(run) if found[1].suffix in (".json", ".jsonl"))

    def _hearing(self) -> Iterator[tuple[str, Path]]:
        """Give the files of hearing in the order in which they are wanted: by what says sentences, by what rehearses,
        by what writes labels, by what learns. A stretch that goes on needs neither what writes labels nor weights to
        begin from."""
        back = self.out / "back" / "hearing"
        yield from self._code()
        yield from self._told("hearing")
        begin = ("start/config.json", "start/tokenizer.json")
        yield from self._below("wheels", "script.npz", "kokoro", *begin, "whisper/encoder.safetensors")
        if not (back / "labels").exists():
            yield from self._below("whisper", "ear")
        yield from self._back("hearing")
        yield from self._below(*(() if (back / "state").exists() else ("start",)), "test-index.jsonl")
        yield from self._below("en-train-04.tar", "en-train-05.tar")
        yield from self._recordings()

    def _speaking(self) -> Iterator[tuple[str, Path]]:
        yield from self._code()
        yield from self._told("speaking")
        yield from self._below("wheels", "script.npz", "drills.npz", "kokoro", "begin", "ear", "tokenizer")
        yield from self._back("speaking")
        yield from self._below("readers.tsv")
        yield from self._recordings()


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m training.prepare", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="folder with speech/ and text/")
    parser.add_argument("--clones", type=Path, help="folder with clones, OWNER+NAME/repo each a git directory")
    parser.add_argument("--sentences", type=int, default=SENTENCES)
    parser.add_argument("--drills", type=int, default=DRILLS)
    given = parser.parse_args()
    Preparation(given.out.resolve(), given.data, given.clones, given.sentences, given.drills).run()


if __name__ == "__main__":
    main()
