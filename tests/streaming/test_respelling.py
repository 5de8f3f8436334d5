"""Other spellings of doubtful words: which are proposed, and that the right one is among them."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from streaming.doubt import Choice, Draft
from streaming.model import AsrModel
from streaming.options import ListenOptions
from streaming.respelling import HEARD, Speller
from tests.clips import Clip

Floats = npt.NDArray[np.float32]
SURE, UNSURE = Choice(-0.01), Choice(-3.0)


@pytest.fixture(scope="module")
def model(model_directory: Path) -> Iterator[AsrModel]:
    model = AsrModel(model_directory, sessions=2)
    yield model
    model.close()


def speller(model: AsrModel, *terms: str) -> Speller:
    found = model.speller(terms)
    assert found is not None
    return found


def heard(model: AsrModel, text: str, frames: int = 3) -> Floats:
    """What the phone head would hear of a text read evenly: each phone for some frames, silence between them."""
    assert model.pronunciation is not None
    classes = len(model.pronunciation.names)
    rows = np.full((0, classes + 1), 0.0)
    for phone in model.pronunciation.of(text.split()):
        for said in [phone] * frames + [classes]:
            row = np.full((1, classes + 1), 1e-4)
            row[0, said] = 1.0
            rows = np.concatenate([rows, row])
    return np.log(rows / rows.sum(axis=1, keepdims=True)).astype(np.float32)


def draft(model: AsrModel, text: str, unsure: Sequence[str] = ()) -> Draft:
    tokens, choices = list[int](), list[Choice]()
    for word in text.split():
        own = model.prompt.spelt(word)
        tokens += own
        choices += [UNSURE if word in unsure else SURE] * len(own)
    return Draft(tokens, [1.0] * len(tokens), [*choices, SURE], ended=True)


def proposed(model: AsrModel, said: str, text: str, unsure: Sequence[str] = (), terms: Sequence[str] = ()) -> list[str]:
    found = speller(model, *terms).respelt(draft(model, text, unsure), 0, heard(model, said))
    return [model.prompt.text(tokens) for tokens in found]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("he washed the dishes at once", "he washed the dishhes at once"),
        ("an egotistical man", "an egoistrical man"),
        ("our predecessors were wise", "our predessesors were wise"),
        ("mackerel is a fish", "mackeral is a fish"),
        ("what was the difficulty", "what was the dificultey"),
    ],
)
def test_a_word_that_is_none_is_spelt_as_the_one_that_was_heard(model: AsrModel, said: str, wrong: str) -> None:
    texts = proposed(model, said, wrong)
    assert said in texts and 0 < len(texts) <= HEARD
    assert speller(model).unknown(model.prompt.spelt(wrong)) == 1 and not speller(model).unknown(
        model.prompt.spelt(said)
    )


def test_a_known_word_is_doubted_only_where_a_token_was_unlikely(model: AsrModel) -> None:
    said, wrong = "the weather was fine", "the whether was fine"
    assert not proposed(model, said, wrong)
    assert said in proposed(model, said, wrong, ["whether"])
    assert wrong not in proposed(model, said, wrong, ["whether"])


def test_words_are_parted_and_joined(model: AsrModel) -> None:
    assert "in a basin there" in proposed(model, "in a basin there", "in abasin there")
    assert "the afternoon sun" in proposed(model, "the afternoon sun", "the after noon sun", ["after"])


def test_what_a_session_brings_is_left_alone(model: AsrModel) -> None:
    said = "my name is zorblax today"
    assert proposed(model, said, said)
    assert not proposed(model, said, said, terms=["Zorblax"])
    assert speller(model).unknown(model.prompt.spelt(said)) == 1
    assert speller(model, "old Zorblax").unknown(model.prompt.spelt(said)) == 0


def test_what_no_frames_can_hold_has_no_other_spelling(model: AsrModel) -> None:
    text = "he washed the dishhes at once"
    found = speller(model).respelt(draft(model, text), 0, heard(model, "dishes")[:3])
    assert found == [] == speller(model).respelt(Draft([], [], [SURE]), 0, heard(model, "a"))


def test_finals_of_real_speech_are_spelt_with_words(
    model: AsrModel, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the same model without its list: fewer words that are none."""

    def texts() -> list[str]:
        out: list[str] = []
        for clip in clips[:24]:
            listener = model.listener(ListenOptions(interim=False))
            events = [*listener.feed(clip.samples), *listener.finish()]
            out.append(" ".join(getattr(event, "text", "") for event in events if getattr(event, "is_final", False)))
        return out

    own = speller(model)

    def unknown(found: Sequence[str]) -> int:
        return sum(own.unknown(model.prompt.spelt(text)) for text in found)

    spelt = texts()
    monkeypatch.setattr(model, "speller", nobody)
    plain = texts()
    assert len(spelt) == len(plain) >= 20
    assert unknown(spelt) < unknown(plain)


def nobody(keyterms: Sequence[str]) -> None:
    """No speller."""
    del keyterms
