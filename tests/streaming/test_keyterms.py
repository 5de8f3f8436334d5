"""Keyterms make their own tokens likelier and nothing else, and a text that recites them is noticed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from engines.store import BUNDLED
from streaming.ctc import CtcRows
from streaming.keyterms import FIRST, FIRST_SPOTTED, NEXT, NEXT_SPOTTED, SUPPORT, KeytermBias, recited
from streaming.prompt import Prompt


def bonus(bias: KeytermBias, tokens: list[int], vocabulary: int = 12) -> dict[int, float]:
    """The bonus of each token that has one after ``tokens``."""
    logits = np.zeros(vocabulary, np.float32)
    bias.apply(logits, tokens)
    return {int(i): float(logits[i]) for i in np.flatnonzero(logits)}


def test_a_term_may_begin_anywhere() -> None:
    """The first token of a term always gets the small bonus."""
    bias = KeytermBias([[[3, 4, 5]], [[7]]])
    assert bonus(bias, []) == {3: FIRST, 7: FIRST}
    assert bonus(bias, [1, 2]) == {3: FIRST, 7: FIRST}


def test_a_begun_term_is_led_on_and_a_finished_one_is_not() -> None:
    """The next token of a term that was begun gets the larger bonus. After its last token there is none."""
    bias = KeytermBias([[[3, 4, 5]]])
    assert bonus(bias, [1, 3]) == {3: FIRST, 4: NEXT}
    assert bonus(bias, [1, 3, 4]) == {3: FIRST, 5: NEXT}
    assert bonus(bias, [1, 3, 4, 5]) == {3: FIRST}
    assert bonus(bias, [3, 9]) == {3: FIRST}


def test_terms_that_share_a_beginning_go_on_together() -> None:
    """Both continuations of a shared beginning get the larger bonus; a token that begins one term and continues another
    gets both."""
    assert bonus(KeytermBias([[[3, 4]], [[3, 5]]]), [3]) == {3: FIRST, 4: NEXT, 5: NEXT}
    assert bonus(KeytermBias([[[3, 3, 4]]]), [3]) == {3: FIRST + NEXT}


def test_whether_a_term_s_last_word_goes_on_is_for_the_model_to_say() -> None:
    """At a term's end, and only there, tokens that spell more than its last one get the same bonus."""
    bias = KeytermBias([[[3, 4]]], longer={3: [7], 4: [5, 6]}.__getitem__)
    assert bonus(bias, [3]) == {3: FIRST, 4: NEXT, 5: NEXT, 6: NEXT}
    heard = bias.spotted(clip(1, 3, 4, 2))
    assert bonus(heard, [1, 3]) == {3: FIRST_SPOTTED, 4: NEXT_SPOTTED, 5: NEXT_SPOTTED, 6: NEXT_SPOTTED}
    prompt = Prompt(Tokenizer.from_file(str(BUNDLED / "pocket-asr-en" / "tokenizer.json")), leading_space=True)
    spelled = {prompt.text([token]) for token in prompt.longer(prompt.terms(["the"])[0][0][-1])}
    assert {"they", "their"} <= spelled and all(text.startswith("the") and text != "the" for text in spelled)


def test_the_language_before_the_text_is_left_alone() -> None:
    """If the model writes its language first, terms begin after the opener and never reach across it."""
    bias = KeytermBias([[[3, 4]]], opener=9)
    assert bonus(bias, []) == {}
    assert bonus(bias, [1, 3]) == {}
    assert bonus(bias, [3, 9]) == {3: FIRST}
    assert bonus(bias, [1, 9, 3]) == {3: FIRST, 4: NEXT}


BLANK = 12


def clip(*tokens: int, rows: int = 2) -> CtcRows:
    """The rows of a CTC head that finds ``tokens`` in the audio, each for ``rows`` rows after as many of silence."""
    log_probs = np.full((2 * rows * len(tokens), BLANK + 1), -20.0, np.float32)
    for row in range(len(log_probs)):
        log_probs[row, tokens[row // (2 * rows)] if row % (2 * rows) >= rows else BLANK] = 0.0
    found = CtcRows(BLANK)
    found.end(log_probs)
    return found


def test_a_term_that_was_heard_gets_much_more_where_it_was_heard() -> None:
    """A spotted term gets the large bonus near its place, until it stands in the text, and the usual one elsewhere."""
    bias = KeytermBias([[[3, 4]]]).spotted(clip(*[1] * 9, 3, 4, *[2] * 9))
    before = [1] * 9
    assert bonus(bias, before) == {3: FIRST_SPOTTED}
    assert bonus(bias, [*before, 3]) == {3: FIRST_SPOTTED, 4: NEXT_SPOTTED}
    assert bonus(bias, [*before, 3, 4]) == {3: FIRST}
    assert bonus(bias, [1] * 8) == bonus(bias, [1] * 13) == {3: FIRST_SPOTTED}
    assert bonus(bias, [1] * 7) == bonus(bias, [1] * 14) == {3: FIRST}, "early it would swallow a word"


def test_a_term_counts_as_often_as_it_was_heard() -> None:
    """A term that is spotted twice gets the large bonus until it stands in the text twice, in any of its forms."""
    bias = KeytermBias([[[3, 4], [5, 6]]]).spotted(clip(1, 3, 4, 2, 5, 6, 2))
    assert bonus(bias, [1]) == {3: FIRST_SPOTTED, 5: FIRST_SPOTTED}
    assert bonus(bias, [1, 3, 4, 2]) == {3: FIRST_SPOTTED, 5: FIRST_SPOTTED}
    assert bonus(bias, [1, 3, 4, 2, 5, 6]) == {3: FIRST, 5: FIRST}


def test_a_term_of_one_token_gets_no_more_where_it_was_heard() -> None:
    """A spotted term of one token gets the usual bonus, and so does its other form of two, since the model knows the
    word."""
    bias = KeytermBias([[[3], [4, 5]]]).spotted(clip(1, 3, 2, 4, 5))
    assert bonus(bias, [1]) == bonus(bias, [1, 3, 2]) == {3: FIRST, 4: FIRST}
    assert bonus(bias, [1, 3, 2, 4]) == {3: FIRST, 4: FIRST, 5: NEXT}


def test_a_term_that_was_not_heard_gets_nothing() -> None:
    """A term that the CTC head does not find gets no bonus. Without a head, or rows, all terms get the usual one."""
    bias = KeytermBias([[[3, 4]], [[7, 8]]])
    assert bonus(bias.spotted(clip(1, 7, 8, 2)), [1]) == {7: FIRST_SPOTTED}
    assert bonus(bias.spotted(CtcRows(BLANK)), [1]) == bonus(bias.spotted(CtcRows(None)), [1]) == {3: FIRST, 7: FIRST}


@given(st.lists(st.integers(0, 11), max_size=8))
def test_no_terms_no_bonus(tokens: list[int]) -> None:
    """A session without keyterms keeps its logits as they are."""
    assert bonus(KeytermBias([]), tokens) == {}


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(BUNDLED / "pocket-asr-en" / "tokenizer.json"))


@pytest.mark.parametrize(
    ("given", "terms"),
    [
        ("Oslo", [["Oslo"]]),
        ("new  york", [["new york", "New York"]]),
        ("Royal Society for the Protection of Birds",
         [["Royal Society for the Protection of Birds", "Royal Society For The Protection Of Birds"]]),
        ("Kubernetes, Istio;\nEnvoy", [["Kubernetes"], ["Istio"], ["Envoy"]]),
        ("Hello, my name is Sven and I live in Oslo", [["Hello"]]),
        (" , ", []),
    ],
)  # fmt: skip
def test_a_term_is_listened_for_as_given_and_with_capitals(
    given: str, terms: list[list[str]], tokenizer: Tokenizer
) -> None:
    """A keyterm counts as given and with capitals. One with commas is a list, in which parts too long for a name are
    dropped."""
    prompt = Prompt(tokenizer, leading_space=True)
    assert [[prompt.text(form) for form in term] for term in prompt.terms([given])] == terms


def test_what_belongs_to_the_model_is_told(tokenizer: Tokenizer) -> None:
    prompt = Prompt(tokenizer, leading_space=True)
    assert prompt.own_mark(["Oslo", "a<asr_text>b"]) == "<asr_text>"
    assert prompt.own_mark(["Oslo", "<b>"]) is None


CONTEXT = "kubernetes grafana prometheus new york city".split()


def test_three_context_words_in_order_are_suspicious() -> None:
    """Three of the keyterms' words in a row are noticed wherever they stand, whatever their case and punctuation."""
    assert recited("well kubernetes Grafana, prometheus then".split(), CONTEXT) == (1, 4)
    assert recited("he lives in new york city now".split(), CONTEXT) == (3, 6)


def test_two_or_another_order_are_not() -> None:
    """Two words, or words in another order, are not suspicious: keyterms may after all be said."""
    assert recited("kubernetes and grafana prometheus".split(), CONTEXT) is None
    assert recited("prometheus grafana kubernetes".split(), CONTEXT) is None
    assert recited([], CONTEXT) is None


def test_support_is_what_the_ctc_head_heard() -> None:
    """Tokens with rows of their own are supported by the CTC head, tokens without are not."""
    rows, vocabulary = 30, 10
    log_probs = np.full((rows, vocabulary + 1), -9.0, np.float32)
    log_probs[:, vocabulary] = -0.1
    for row, token in ((3, 1), (8, 2), (12, 3)):
        log_probs[row, token], log_probs[row, vocabulary] = -0.05, -4.0
    heard = CtcRows(vocabulary)
    heard.end(log_probs)
    assert heard.word_scores([1, 2, 3], [(0, 3)])[0] >= SUPPORT
    assert heard.word_scores([4, 5, 6], [(0, 3)])[0] < SUPPORT
    assert heard.word_scores([1] * 40, [(0, 40)])[0] < SUPPORT
