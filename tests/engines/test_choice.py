"""The model that is used where none is named: chosen by weights, measured costs, and what the probe estimates."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from engines import choice, speed, store
from engines.manifest import read_asr, write
from engines.releases import RELEASES, find, near
from engines.speed import Units

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's directory of models, empty. A probe is an error unless a test says what it finds."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv(store.SEARCH_PATH, raising=False)

    def probe(threads: int | None = None) -> Units:
        raise AssertionError("nothing is to be measured")

    monkeypatch.setattr(speed, "probe", probe)
    return tmp_path / "hearsay" / "models"


@pytest.fixture
def pulled(
    user: Path, asr_directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, int, float | None], None]:
    """A function ``pulled(name, layers, cost)`` that adds a hearing model of so many layers, which cost so much
    here."""
    monkeypatch.setattr(speed, "_BUSY", 1e9)

    def put(name: str, layers: int, cost: float | None) -> None:
        import msgspec

        shutil.copytree(asr_directory, user / name)
        manifest = read_asr(user / name)
        write(
            msgspec.structs.replace(manifest, decoder=msgspec.structs.replace(manifest.decoder, layers=layers)),
            user / name,
        )
        if cost is not None:
            speed.note(user / name, cost)

    return put


def test_the_small_model_needs_no_reason_and_no_probe(user: Path) -> None:
    for kind in ("asr", "tts"):
        found = choice.choose(kind)
        assert (found.name, found.why, found.told(kind, "--model")) == (f"pocket-{kind}-en", "", "")


def test_the_largest_that_is_live_is_taken_and_says_why(pulled: Callable[[str, int, float | None], None]) -> None:
    """The largest live model is taken, whatever its speed. The reason names one that could not keep up."""
    pulled("small", 10, 0.1)
    pulled("middle", 20, 0.6)
    pulled("large", 40, 1.4)
    found = choice.choose("asr")
    assert found.name == "middle"
    told = found.told("asr", "--asr-model")
    assert told.startswith(
        "hears with middle, the best here that this machine keeps live (0.60 s for a second of sound"
    )
    assert "large would take 1.40 s" in told and "--asr-model NAME takes another" in told
    assert choice.choose("tts").name == "pocket-tts-en"


def test_one_that_failed_its_trial_is_passed_over(
    pulled: Callable[[str, int, float | None], None], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that failed its trial is not taken, however busy the machine was, until it passes another."""
    pulled("odd", 40, 0.2)
    monkeypatch.setattr(speed, "_BUSY", -1.0)
    speed.note(user / "odd", 0.2, failed=True)
    found = choice.choose("asr")
    assert (found.name, found.why) == ("pocket-asr-en", "the small one; odd failed its trial")
    pulled("middle", 20, None)
    monkeypatch.setattr(speed, "probe", lambda threads=None: Units(1e-15, 1e-15, 1e-15))
    assert choice.choose("asr").name == "middle" and "; odd failed its trial)" in choice.choose("asr").why
    speed.note(user / "odd", 0.2)
    assert choice.choose("asr").name == "odd"


def test_where_nothing_pulled_is_live_the_small_one_serves(pulled: Callable[[str, int, float | None], None]) -> None:
    pulled("large", 40, 1.4)
    found = choice.choose("asr")
    assert found.name == "pocket-asr-en" and "large would take 1.40 s" in found.why


def test_what_never_ran_here_is_estimated(
    pulled: Callable[[str, int, float | None], None], user: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost is estimated if the model never ran here, ran on another machine or with other threads."""
    pulled("large", 40, 0.3)
    file = user / "large" / speed.FILE
    for field, value in (("machine", "another"), ("threads", 999)):
        pulled_here = file.read_text()
        file.write_text(json.dumps({**json.loads(pulled_here), field: value}))
        monkeypatch.setattr(speed, "probe", lambda threads=None: Units(1e-6, 1e-6, 1e-6))
        assert choice.choose("asr").name == "pocket-asr-en"
        monkeypatch.setattr(speed, "probe", lambda threads=None: Units(1e-14, 1e-14, 1e-14))
        assert choice.choose("asr").name == "large"
        file.write_text(pulled_here)


def test_a_damaged_model_and_one_of_another_kind_are_passed_over(
    pulled: Callable[[str, int, float | None], None], user: Path
) -> None:
    pulled("broken", 40, 0.1)
    (user / "broken" / "decoder.gguf").write_bytes(b"short")
    shutil.copytree(GOLDEN / "speaking", user / "speaks")
    assert choice.choose("asr").name == "pocket-asr-en"


def test_the_probe_tells_of_this_machine() -> None:
    """The probe gives plausible times, and estimates grow with a model's size and precision."""
    speed.probe.cache_clear()
    units = speed.probe(1)
    assert 0 < units.row < 1e-8 and 0 < units.step < 1e-7 and 0 < units.product < 1e-8
    more = speed.probe(4)
    assert more.row < units.row and more.step < units.step and more.product < units.product
    for kind in ("asr", "tts"):
        costs = [speed.cost(kind, one.weights, "q8_0", units) for one in RELEASES if one.kind == kind]
        assert all(cost > 0 for cost in costs)
    small, large = find("qwen3-asr-0.6b"), find("qwen3-asr-1.7b")
    assert small is not None and large is not None
    assert speed.hearing(small.weights, "q8_0", units) < speed.hearing(large.weights, "q8_0", units)
    assert speed.resident("asr", small.weights, "q4_k_m") < speed.resident("asr", small.weights, "q8_0")


def test_a_busy_machine_notes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine writes no cost down, since it would not be that of the model."""
    monkeypatch.setattr(speed, "_BUSY", -1.0)
    speed.note(tmp_path, 1.0)
    assert speed.measured(tmp_path) is None
    monkeypatch.setattr(speed, "_BUSY", 1e9)
    speed.note(tmp_path, 1.0)
    assert speed.measured(tmp_path) == 1.0


def test_releases_are_found_by_any_of_their_names() -> None:
    for one in RELEASES:
        for name in (one.alias, one.repository, one.repository.upper()):
            assert find(name) == one
    assert find("qwen3-tts-0.6b") == find("Qwen/Qwen3-TTS-12Hz-0.6B-CustomVoice")
    assert find("nothing") is None and near("nothing") == ""
