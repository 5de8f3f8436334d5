"""Families of models: one that only this test defines, in a file of its own, works with the same listener and no
torch."""

import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import msgspec
import numpy as np
import pytest

from engines import manifest as manifests
from engines.files import load_tokenizer
from streaming import families
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.work import Work
from tests.clips import Clip
from tests.golden_models import GOLDEN
from tests.streaming.listening import finals, listen

THIRD = '''
    """Hears at half the volume, and asks with a longer suffix."""

    from streaming.families import qwen3_asr
    from streaming.windows import Windows


    class Halved(Windows):
        def extend(self, samples):
            super().extend(samples / 2)


    class Family(qwen3_asr.Family):
        def __init__(self, directory, manifest, tokenizer):
            super().__init__(directory, manifest, tokenizer)
            suffix = self.prompt.suffix
            self.prompt.suffix = lambda language: [*suffix(language), *suffix(language)]

        def clip(self, encoder, work, mel_maximum=None):
            return Halved(encoder, self.log_mel, work, mel_maximum)
'''

Named = Callable[[str], AsrModel]


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Named:
    """Loads the golden model as one of another family, for which the families' folder has one more file."""
    more = tmp_path / "families"
    more.mkdir()
    (more / "third_family.py").write_text(dedent(THIRD))
    monkeypatch.setattr(families, "__path__", [*families.__path__, str(more)])
    monkeypatch.delitem(sys.modules, "streaming.families.third_family", raising=False)
    folder = tmp_path / "model"
    folder.mkdir()
    for file in (GOLDEN / "int8").iterdir():
        (folder / file.name).symlink_to(file.resolve())

    def load(family: str) -> AsrModel:
        manifest = manifests.read_asr(GOLDEN / "int8")
        (folder / manifests.NAME).unlink()
        manifests.write(msgspec.structs.replace(manifest, family=family), folder)
        return AsrModel(folder, sessions=1, threads=1)

    return load


def test_a_third_family_is_heard_by_its_own_file(named: Named, clips: list[Clip]) -> None:
    """The new family's front end gives the rows and its prompt the suffix; the session is the same."""
    samples = next(clip.samples for clip in clips if clip.seconds < 6)
    third = named("third-family")
    try:
        ours = third.engine.family.clip(third.engine.encoder, Work())
        manifest = manifests.read_asr(GOLDEN / "int8")
        first = families.load(third.directory, manifest, load_tokenizer(third.directory / manifest.tokenizer.file))
        theirs = first.clip(third.engine.encoder, Work())
        ours.extend(samples)
        theirs.extend(samples * np.float32(0.5))
        end = len(samples)
        run = third.engine.lane.run
        np.testing.assert_array_equal(run(ours.tail(end)).embeddings, run(theirs.tail(end)).embeddings)
        assert finals(listen(third, samples, ListenOptions(language="en"), [8000]))
        assert third.work.text_rows > 2 * len(first.prompt.suffix("en"))
    finally:
        third.close()


@pytest.mark.parametrize("name", ["fourth-family", "../qwen3-asr", "families", ""])
def test_a_family_that_nobody_wrote_is_refused_by_name(named: Named, name: str) -> None:
    """The error for an unknown family names those that there are."""
    with pytest.raises(manifests.ManifestError, match="family .* is none of fun-asr-nano, qwen3-asr, third-family"):
        named(name)
