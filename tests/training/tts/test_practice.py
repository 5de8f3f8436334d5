"""Practice: many rows are spoken as the talker speaks one, the best takes are chosen, and they are what is learnt."""

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG, by_steps, layout, tokenizer, tone_shard
from training.asr.teacher import frames
from training.speech.script import ACCENTS, Script
from training.speech.sounds import VOCABULARY
from training.tts import judges
from training.tts.checkpoint import load_talker, save_talker
from training.tts.choice import asks, choose, lines_of_script, weights
from training.tts.config import PracticeTraining
from training.tts.decoder import Decoder
from training.tts.judges import Judgements, Judges, begun, load_distillmos, spellings
from training.tts.practice import PracticeRun, PracticeTrainer
from training.tts.prompt import lay_out
from training.tts.rows import IGNORE, Bucket, Layout
from training.tts.sampler import Saying, speak, voices_of
from training.tts.talker import ENCODER, Talker, drawn
from training.tts.talker_step import embed

CPU = torch.device("cpu")
Codes = NDArray[np.int16]
SAID = ("kˈæt ɔn ðə mˈæt.", "dˈɔɡ bI ðə dˈɔɹ.", "ɪz ɪt ɹˈA?", "wˈʌt ɪz ɪt?", "lˈæmp.", "ðə ɹˈOd.", "ʃi wɛnt, nˈO?")
WRITTEN = ("Cat on the mat.", "Dog by the door.", "Is it ray?", "What is it?", "Lamp.", "The road.", "She went, no?")


def small(seed: int = 0) -> Talker:
    torch.manual_seed(seed)
    return Talker(CONFIG.talker, CONFIG.codec, CONFIG.speaker).eval()


@torch.no_grad()
def lively(seed: int) -> Talker:
    """Make a talker in which each position matters for what is likeliest later; fresh weights attend to all alike."""
    talker = small(seed)
    for parameter in talker.model.layers.parameters():
        parameter.mul_(12 if parameter.dim() > 1 else 1)
    return talker


def wanted(first: float = 0.0, rest: float = 0.0) -> list[Saying]:
    """Make rows of several lengths, by both of our speakers and by two voices."""
    chance = np.random.default_rng(1)
    voices = torch.from_numpy(chance.normal(0, 0.3, (2, CONFIG.talker.hidden_size)).astype(np.float32))
    speakers: list[str | torch.Tensor] = ["ada", "ben", voices[0], "ada", voices[1], "ben"]
    return [Saying(chance.integers(0, 300, 2 + n % 6).tolist(), who, first, rest) for n, who in enumerate(speakers * 4)]


@torch.no_grad()
def likeliest(talker: Talker, made: Layout, one: Saying, codes: Codes) -> tuple[Codes, Codes]:
    """Give what is likeliest in each frame of a row, when all of it is given at once: the labels of codebook 0 with the
    end, and the codes of the other books."""
    row = lay_out(codes, one.tokens, one.name, made.text, made.codec, language=True)
    cloned, voices = voices_of([one], CPU)
    batch = Bucket(made, [row], len(row.text)).batch(torch.tensor([0]), None)._replace(cloned=cloned)
    hidden = talker.model(embed(talker, batch, batch.codes, voices if len(cloned) else None))[0]
    logits = talker.codec_head(hidden)
    known = [*range(talker.size), made.codec.eos]
    first = torch.tensor(known)[logits[:, known].argmax(-1)][batch.label[0] != IGNORE]
    rest = talker.predict(hidden[:-1][batch.frame[0, 1:]], batch.codes[0, 1:][batch.frame[0, 1:]]).argmax(-1)
    return first.numpy().astype(np.int16), rest.numpy().astype(np.int16)


def test_rows_of_a_batch_are_the_likeliest_codes_up_to_the_end(tmp_path: Path) -> None:
    """What is said frame by frame, in rows of several lengths, is what the talker finds likeliest of it all at once,
    the end among it; and each row is what it is alone."""
    made, ends, by_a_voice = layout(tmp_path), set[int](), 0
    for seed in range(4):
        talker = lively(seed)
        said = speak(talker, made, wanted(), language=True)
        for one, codes in zip(wanted(), said, strict=True):
            if codes is None or len(codes) < len(one.tokens):
                continue  # Such a row cannot be laid out to be given at once.
            [alone] = speak(talker, made, [one], language=True)
            # A longer row beside it lets a row go on for longer.
            assert len(codes) > 30 if alone is None else np.array_equal(codes, alone)
            first, rest = likeliest(talker, made, one, codes)
            assert np.array_equal(first, [*codes[:, 0], made.codec.eos]) and np.array_equal(rest, codes[:, 1:])
            ends.add(len(codes))
            by_a_voice += one.name == ""
    assert len(ends) > 2 and by_a_voice > 1


def test_each_row_has_its_own_temperatures(tmp_path: Path) -> None:
    """The first book or the others change from one time to the next, in the rows that are told so."""
    made, talker = layout(tmp_path), small()
    [steady, *_] = [
        w for w, c in zip(wanted(), speak(talker, made, wanted(), language=True), strict=True) if c is not None
    ]
    pairs = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0)]
    rows = [replace(steady, first=first, rest=rest) for first, rest in pairs for _ in range(12)]
    torch.manual_seed(5)
    said = speak(talker, made, rows, language=True)
    still, first, others = (
        [codes for codes in said[at : at + 12] if codes is not None and len(codes) > 1] for at in (0, 12, 24)
    )
    assert len(still) == 12 and all(np.array_equal(codes, still[0]) for codes in still)
    assert len({int(codes[0, 0]) for codes in first}) > 3
    assert {int(codes[0, 0]) for codes in others} == {int(still[0][0, 0])}
    assert len({tuple(codes[0, 1:].tolist()) for codes in others}) > 3


def test_entries_are_drawn_as_often_as_they_are_likely() -> None:
    torch.manual_seed(0)
    logits, temperature = torch.tensor([1.0, 0.0, -1.0]), 0.5
    found = drawn(logits.expand(20_000, 3), torch.full((20_000,), temperature)).bincount(minlength=3) / 20_000
    assert torch.allclose(found, (logits / temperature).softmax(0), atol=0.01)


def test_no_row_ends_at_once_or_says_what_is_no_code(tmp_path: Path) -> None:
    """The end is refused in the first two frames even where it is likeliest, and control ids always are."""
    made, talker = layout(tmp_path), small()
    with torch.no_grad():
        talker.codec_head.weight[made.codec.eos] = 0
        talker.codec_head.weight[: talker.size] *= -1
        talker.codec_head.weight[talker.size :].mul_(0.0)
        talker.model.norm.weight.mul_(0.1)
    said = speak(talker, made, wanted(3.0, 3.0) * 8, language=False)
    ended = [codes for codes in said if codes is not None]
    assert len(ended) > 100 and min(map(len, ended)) >= 2
    assert all(0 <= codes.min() and codes.max() < talker.size for codes in ended)


def judgements(natural: Sequence[float], heard: Sequence[float] = (), rise: Sequence[float] = ()) -> Judgements:
    """Make judgements; those not given are all the same."""
    like = [0.0] * len(natural)
    return Judgements(*(np.array(x, float) for x in (natural, heard or like, rise or [math.nan] * len(natural))))


def chosen(frames: Sequence[int], found: Judgements, asking: bool = False) -> int | None:
    return choose(np.array(frames), found, asking, PracticeTraining())


def test_the_best_take_is_chosen() -> None:
    frames = [40, 41, 40, 42]
    assert chosen(frames, judgements([3.0, 3.2, 4.0, 3.9])) == 2
    # Four nats are worth a point.
    assert chosen(frames, judgements([3.0, 3.2, 4.0, 3.9], [-5, -5, -6.3, -5])) == 3
    assert chosen(frames, judgements([4.0, 3.2, 3.0, 3.0], [-40, -5, -5, -5])) == 1
    # No more than six nats count, so here the most natural take would be worth it, but it is not understood.
    assert chosen(frames, judgements([4.9, 3.0, 3.0, 3.0], [-40, -5, -5, -5])) is None


def test_takes_of_odd_length_are_left_out() -> None:
    natural = [5.0, 3.0, 3.5, 3.2, 4.8]
    assert chosen([30, 40, 41, 42, 50], judgements(natural)) == 2
    assert (
        chosen([36, 40, 41, 42, 50], judgements(natural)) == 2
        and chosen([37, 40, 41, 42, 50], judgements(natural)) == 0
    )
    # In a short line two frames are free; of fewer than three takes of like length none is learnt.
    assert chosen([5, 7, 7, 8, 9], judgements(natural)) == 0
    assert chosen([20, 30, 40, 41, 60], judgements(natural)) is None


def test_questions_must_rise() -> None:
    frames, natural = [40, 40, 40], [4.0, 3.5, 3.5]
    assert chosen(frames, judgements(natural, rise=[-1, 1, 3]), asking=True) == 2
    assert chosen(frames, judgements(natural, rise=[-1, 1, 3])) == 0, "nobody asked"
    assert chosen(frames, judgements(natural, rise=[-1, 1, 2]), asking=True) is None
    assert chosen(frames, judgements(natural, rise=[math.nan, 2.5, 4]), asking=True) == 2
    # What rises beyond four semitones is no better.
    assert chosen(frames, judgements(natural, rise=[4, 9, 20]), asking=True) == 0


def script() -> Script:
    rows = [[VOCABULARY[c] for c in line] for line in SAID]
    tokens = np.concatenate([np.array(row, np.uint8) for row in rows])
    ends, aligned = np.cumsum([len(row) for row in rows]), np.ones(len(rows), np.bool_)
    return Script(list(WRITTEN), *((one,) * len(ACCENTS) for one in (tokens, ends, aligned)))


def test_lines_are_read_from_a_script(tmp_path: Path) -> None:
    words = tokenizer(tmp_path)
    lines = lines_of_script(script(), words, 60)
    assert [line.text for line in lines if line.asks] == ["Is it ray?", "She went, no?"]
    assert [line.text for line in lines] == list(WRITTEN) and words.decode(lines[0].tokens) == f" {SAID[0]}"
    longest = max(len(line.tokens) for line in lines)
    assert 0 < len(lines_of_script(script(), words, longest - 1)) < len(lines)
    assert asks("wˈʌt ɪz ɪt. ɪz ɪt?") and not asks("ɪz ɪt? nˈO.") and not asks("ɪz ɪt. wˈʌt ɪz ɪt?")
    often = weights(lines, replace(PracticeTraining(), short_words=1, often=3.0))
    assert math.isclose(often.sum(), 1) and np.allclose(often / often.min(), [1, 1, 3, 1, 3, 1, 3])


LIKED = 7


def likes(codes: Sequence[Codes], texts: Sequence[str], asking: Sequence[bool]) -> Judgements:
    """Find a take the better the more of its frames have one code."""
    assert len(codes) == len(texts) == len(asking) and set(texts) <= set(WRITTEN)
    share = np.array([(one[:, 0] == LIKED).mean() for one in codes])
    return Judgements(1 + 4 * share, np.zeros(len(codes)), np.where(asking, 3.0, math.nan))


PRACTICE = PracticeTraining(
    lines=6, held_out=1, asker="ben", frames=2, length=9.0, clones=0.5, voices=3, steps=8, batch=400, positions=900,
    predictor_frames=64, warmup_steps=1, rate=3e-3, first_temperatures=(1.0,) * 8, rest_temperatures=(0.5,) * 8,
)  # fmt: skip


def trainer(folder: Path, seconds: int, **settings: Any) -> PracticeTrainer:
    tokenizer(folder)
    script().save(folder / "script.npz")
    tone_shard("reader", frames=60).save(folder / "readers/a.npz")
    save_talker(small(), folder / "start")
    run = PracticeRun(
        start=folder / "start", script=(folder / "script.npz",), readers=(folder / "readers",), codec=folder,
        teacher=folder, tokenizer=folder / "tokenizer.json", out=folder / "out", seconds=seconds, device="cpu",
    )  # fmt: skip
    return by_steps(PracticeTrainer(replace(CONFIG, practice_training=replace(PRACTICE, **settings)), run, likes))


def test_practice_makes_what_judges_like_more_frequent(tmp_path: Path) -> None:
    """The talker says the code more often, and less often when the judge is not asked; its speaker encoder, which
    clones voices, stays bit for bit."""
    practised = trainer(tmp_path, 6)
    before = load_talker(tmp_path / "start", CONFIG)
    practised.report_every = 1
    practised.train()
    about = json.loads((tmp_path / "out/practice.json").read_text())
    natural = [row[3] for row in about["history"]]
    assert about["measures"][:2] == ["lines kept", "naturalness"] and len(natural) == 6
    assert natural[-1] > natural[0] + 0.5, "more of one code in 32"
    assert set(about["scores"][-1]["scores"]) == {"ada", "ben"}
    after = load_talker(tmp_path / "out/weights", CONFIG)
    for (name, old), new in zip(before.named_parameters(), after.parameters(), strict=True):
        assert torch.equal(old, new) == name.startswith(ENCODER), name
    assert (tmp_path / "out/round-6/parts.json").exists()


def test_readers_voices_are_practised_as_they_come(tmp_path: Path) -> None:
    """Beside the chosen takes of our own speakers there are takes by voices, one for every second line, which no judge
    heard; the last rounds are kept."""
    practised = trainer(tmp_path, 5, rounds=2)
    assert practised.rounds.voices.shape == (3, CONFIG.talker.hidden_size)
    heard = practised.layout.references.draw(torch.tensor(practised.layout.references.everyone()))
    own = practised.talker.voices(heard)[0]
    assert (practised.rounds.voices - own).norm(dim=1).max() < 0.5 * own.norm()
    takes, told = practised.rounds.next(np.random.default_rng(3))
    ours, theirs = [t for t in takes if t[0].name], [t for t in takes if not t[0].name]
    assert 3 < len(ours) == told[0] <= 6 and 0 < len(theirs) <= 3
    assert {one.name for one, _ in ours} == {"ada", "ben"}
    assert told[3] > 0, "what is chosen has more of what is liked"
    for _ in range(3):
        practised.step(0.0)
    assert len(practised.taken) == 2


def test_a_talker_whose_takes_are_none_cannot_practise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must speak before it practises"):
        trainer(tmp_path, 1, frames=400).train()
    with pytest.raises(ValueError, match="7 lines, of which 7 are held out"):
        trainer(tmp_path, 1, held_out=7)


def test_numbers_may_be_heard_in_digits() -> None:
    assert spellings("It costs seven hundred miles.") == ["It costs seven hundred miles.", "It costs 700 miles."]
    assert spellings("Forty-two people.") == ["Forty-two people.", "42 people."]
    lines = ["It is one thousand two hundred and five dollars.", "It is $1,205."]
    assert spellings(lines[0]) == lines
    assert spellings("My number is five five, one two.") == ["My number is five five, one two."]
    assert spellings("Is it real?") == ["Is it real?"]


def test_what_is_judged_begins_as_at_run_time() -> None:
    """A tick before the speech is silent, and what is still soft after a frame begins then."""
    from codec.output import Output

    wave = np.random.default_rng(0).normal(0, 0.01, (2, 7680)).astype(np.float32)
    wave[0, 900:] += 0.3 * np.sin(np.arange(6780) / 9).astype(np.float32)
    for row, made in zip(wave, begun(torch.from_numpy(wave)).numpy(), strict=True):
        assert np.abs(made - Output(1.0, 24000, 24000).feed(row)[: len(made)]).max() < 0.01
        assert not made[:900].any() and made[3000:].any()


def test_distillmos_is_asked_for_and_needs_no_torchaudio(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = set[str]()
    monkeypatch.setattr(judges, "find_spec", lambda name: name if name in installed else None)
    with pytest.raises(ImportError, match=r"needs distillmos: pip install -e '\.\[natural\]'"):
        load_distillmos(CPU)
    installed.add("distillmos")
    (tmp_path / "distillmos.py").write_text(
        "import torch, torchaudio\nclass ConvTransformerSQAModel(torch.nn.Module):\n"
        "    def __init__(self, segmenting_in_forward):\n        super().__init__()\n        print('weights')\n"
        "    def forward(self, x):\n        return 1 + x.square().mean(1)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "distillmos", raising=False)
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    assert load_distillmos(CPU)(torch.ones(2, 9)).tolist() == [2.0, 2.0]
    assert "torchaudio" not in sys.modules
    del sys.modules["distillmos"]


def test_judges_hear_each_take_as_if_it_was_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the other takes of a batch nor their texts change what is thought of one; the log-probability is that of
    the text's tokens and the end, one after another."""
    transformers = pytest.importorskip("transformers")
    from tokenizers import Tokenizer, models, pre_tokenizers

    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
    words = Tokenizer(models.WordLevel({w: i for i, w in enumerate(["Cat", "on", "mat", *special])}, unk_token="mat"))
    words.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    torch.manual_seed(1)
    config = transformers.WhisperConfig(
        vocab_size=8, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=1,
        decoder_attention_heads=1, encoder_ffn_dim=16, decoder_ffn_dim=16, pad_token_id=3, bos_token_id=3,
        eos_token_id=3, decoder_start_token_id=4, suppress_tokens=[], begin_suppress_tokens=[],
    )  # fmt: skip
    teacher = transformers.WhisperForConditionalGeneration(config).eval()
    with torch.no_grad():
        teacher.model.decoder.embed_tokens.weight.mul_(30)
    monkeypatch.setattr(judges, "load_teacher", lambda folder, device: teacher)
    monkeypatch.setattr(judges, "load_distillmos", lambda device: lambda x: x.square().mean(1))
    judge = Judges(tmp_path, Decoder(CONFIG.codec), CPU)
    chance = np.random.default_rng(0)
    codes = [chance.integers(0, 32, (n, 3)).astype(np.int16) for n in (60, 9, 20)]
    texts, asking = ["Cat on mat", "Cat", "on mat"], [False, True, True]
    found = judge(codes, texts, asking)
    for i in range(3):
        alone = judge(codes[i : i + 1], texts[i : i + 1], asking[i : i + 1])
        for together, single in zip(found.at([i]), alone, strict=True):
            np.testing.assert_allclose(together, single, rtol=1e-4, atol=1e-4)
    assert np.isnan(found.rise[0]) and len(set(found.natural)) == len(set(found.heard)) == 3

    with torch.no_grad():
        wave = (judge.heard(codes[:1])[0] * 32767).to(torch.int16)
        states = teacher.model.encoder(frames(80, CPU)([wave])).last_hidden_state
        ids, total = [4, 5, 6, 7], 0.0
        for token in (0, 1, 2, 3):
            out = teacher.model.decoder(input_ids=torch.tensor([ids]), encoder_hidden_states=states)
            total += float(teacher.proj_out(out.last_hidden_state[:, -1]).log_softmax(-1)[0, token])
            ids.append(token)
    assert math.isclose(total, found.heard[0], rel_tol=1e-3)
