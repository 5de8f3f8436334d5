"""In a plan what is heard and what is to be written belong together, and every row fits."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from training.asr.config import Config
from training.asr.plan import LONG_PREFIX, SHORT_PREFIX, SYNTHETIC, Planner, Utterance, target_width
from training.asr.prompt import Prompt
from training.shards import RATE

from .shapes import CONFIG, SENTENCES, tiny_tokenizer

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tiny_tokenizer(tmp_path_factory.mktemp("tokenizer"))


def utterances(real: bool) -> list[Utterance]:
    """One word lasts a quarter of a second, and every word can be cut off."""
    out: list[Utterance] = []
    at = 0
    for text in SENTENCES[:6]:
        count = len(text.split())
        cuts = [(i * RATE // 4, i) for i in range(1, count)]
        out.append(Utterance(at, count * RATE // 4, text, real, cuts))
        at += count * RATE // 4
    return out


def planner(tokenizer: Tokenizer, config: Config = CONFIG, seed: int = 1, **more: list[Utterance]) -> Planner:
    known = {"librispeech": utterances(True), SYNTHETIC: utterances(False)} | more
    return Planner(config, Prompt(tokenizer), {"kubernetes": 2, "ventriloquist": 9}, known, seed)


def test_words_encode_one_by_one_as_in_a_sentence(tokenizer: Tokenizer) -> None:
    for text in SENTENCES[:6]:
        assert Prompt(tokenizer).words(text.split()) == tokenizer.encode(" " + text).ids


def test_the_template_costs_as_few_rows_as_the_official_one(tokenizer: Tokenizer) -> None:
    prompt = Prompt(tokenizer)
    assert len(prompt.prefix()) == 9 and len(prompt.suffix) == 6 and len(prompt.english) == 3


def test_a_context_reads_the_same_with_and_without_its_leading_space(tokenizer: Tokenizer) -> None:
    prompt, words = Prompt(tokenizer), ["letter", "house"]
    texts = [tokenizer.decode(prompt.prefix(words, leading_space=lead)) for lead in (True, False)]
    assert texts[0].replace("system\n letter", "system\nletter") == texts[1]


def test_rows_fit_and_targets_are_what_was_cut(tokenizer: Tokenizer) -> None:
    made = planner(tokenizer)
    prompt = Prompt(tokenizer)
    known = {word for text in SENTENCES for word in text.split()}
    for number in range(60):
        plan = made.plan(number)
        rows = len(plan.length)
        assert plan.targets.shape == (rows, target_width(plan.seconds))
        assert plan.prefix.shape[1] in (SHORT_PREFIX, LONG_PREFIX)
        assert plan.length.max() <= plan.seconds * RATE and plan.length.min() >= RATE // 2
        assert plan.ctc_count.sum() == (plan.ctc_count.sum() and len(plan.ctc))
        ends = plan.segments[:, 1] + plan.segments[:, 6]
        assert (ends <= plan.seconds * RATE).all() and (plan.segments[:, 1] >= 0).all()
        for row in range(rows):
            text = prompt.text(plan.targets[row, len(prompt.suffix) :].tolist())
            assert set(text.split()) <= known
            heard = plan.segments[plan.segments[:, 0] == row]
            # A word is a quarter of a second, read at the segment's rate; a cut may fall a little beside its word.
            quarters = (heard[:, 3] / (RATE / 4)).sum()
            assert abs(quarters - len(text.split())) <= 0.3 * max(len(heard), 1)
            assert int(plan.mask[row].sum()) == plan.ctc_count[row] + 4


def test_nothing_without_a_text_is_planned(tokenizer: Tokenizer) -> None:
    silent = [Utterance(0, 5 * RATE, "", True, [])]
    made = planner(tokenizer, replace(CONFIG, sources={"librispeech": 1.0, "unlabelled": 1.0}), unlabelled=silent)
    assert set(made.weights()) == {"librispeech", SYNTHETIC}


def test_a_word_that_was_never_heard_stands_in_the_context(tokenizer: Tokenizer) -> None:
    known = {"librispeech": [Utterance(0, 2 * RATE, "the sea was Calm.", False, [])]}
    made = Planner(CONFIG, Prompt(tokenizer), {"calm": 1, "letter": 25}, known, 1)
    prompt, short = Prompt(tokenizer), len(Prompt(tokenizer).prefix())
    contexts = 0
    for number in range(30):
        plan = made.plan(number)
        for row in np.flatnonzero(plan.prefix_count > short):
            if "Calm" in prompt.text(plan.targets[row, len(prompt.suffix) :].tolist()):
                context = tokenizer.decode(plan.prefix[row, : plan.prefix_count[row]].tolist()).split("\n")[1]
                assert "calm" in context.lower()
                contexts += 1
    assert contexts > 20


def test_cut_utterances_are_really_drawn(tokenizer: Tokenizer) -> None:
    made = planner(tokenizer, replace(CONFIG, batches=replace(CONFIG.batches, span_share=0.9)))
    whole = {u.start: u.length for u in utterances(True)}
    segments = np.concatenate([made.plan(number).segments for number in range(30)])
    spans = sum(whole.get(int(s), -1) != int(n) for s, n in segments[:, 2:4])
    assert spans > len(segments) // 3


def test_contexts_hold_spoken_and_unspoken_words(tokenizer: Tokenizer) -> None:
    made, prompt = planner(tokenizer), Prompt(tokenizer)
    short = len(prompt.prefix())
    rows = spoken = 0
    for number in range(80):
        plan = made.plan(number)
        for row in np.flatnonzero(plan.prefix_count > short):
            context = tokenizer.decode(plan.prefix[row, : plan.prefix_count[row]].tolist()).split("\n")[1].split()
            said = prompt.text(plan.targets[row, len(prompt.suffix) :].tolist()).split()
            rows += 1
            spoken += bool(set(context) & set(said))
    assert rows > 50 and 0.3 * rows < spoken < 0.8 * rows


def test_the_same_seed_plans_the_same(tokenizer: Tokenizer) -> None:
    """The plan of a number is the same whatever was planned before."""
    first, later = planner(tokenizer, seed=3), planner(tokenizer, seed=3)
    later.plan(7)
    a, b = (made.plan(4) for made in (first, later))
    assert (a.targets == b.targets).all() and (a.segments == b.segments).all()
    assert first.plan(5).segments.shape != a.segments.shape or (first.plan(5).segments != a.segments).any()


def test_the_same_seed_plans_the_same_in_another_process() -> None:
    """Strings have other hashes in another process, and sets another order."""
    code = """
from tokenizers import Tokenizer
from tests.training.asr.shapes import SHIPPED
from tests.training.asr.test_plan import planner
made = planner(Tokenizer.from_file(str(SHIPPED / "tokenizer.json")))
print([made.plan(number).prefix.tolist() for number in range(20)])
"""
    told = [
        subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=os.environ | {"PYTHONHASHSEED": seed})
        for seed in "12"
    ]
    assert told[0] == told[1]


def test_a_share_of_what_is_heard_is_real(tokenizer: Tokenizer) -> None:
    assert planner(tokenizer).weights()["librispeech"] == pytest.approx(CONFIG.batches.real_share)
