"""The network in batches: a row does not depend on who is beside it."""

from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from safetensors.torch import save_file

from training.checkpoint import save_weights
from training.speech.batches import STEP, Batches, Order, Said
from training.speech.kokoro import Kokoro
from training.speech.make import few_and_many
from training.speech.say import speak
from training.speech.sound import Source, snaked, styled
from training.speech.voices import OWN, Voice, Voices
from training.speech.weights import FILE, load


@pytest.fixture(scope="module")
def model() -> Kokoro:
    torch.manual_seed(3)
    return Kokoro().requires_grad_(False).eval()


@pytest.fixture(scope="module")
def voices(tmp_path_factory: pytest.TempPathFactory) -> Voices:
    names = {name for mixture in OWN.values() for name in mixture} | {"jf_alpha"}
    path = tmp_path_factory.mktemp("voices") / "voices.safetensors"
    save_file({name: (0.2 * torch.randn(510, 256)).half() for name in names}, path)
    return Voices(path, torch.device("cpu"))


def test_a_row_sounds_the_same_alone_and_in_a_batch(model: Kokoro, voices: Voices) -> None:
    own = voices.own("clara")
    orders = [Order(str(i), np.full(n, 50 + i, np.uint8), own, 20.0, False) for i, n in enumerate((5, 6, 12))]

    def said(batches: Batches, given: list[Order]) -> dict[str, torch.Tensor]:
        torch.manual_seed(0)
        out: list[Said] = [s for order in given for s in batches.add(order)]
        out += batches.finish()
        for one in out:
            assert not (one.durations.sum(1) % STEP).any()
            assert one.wave.shape[1] == 600 * one.durations[0].sum()
        return {o.text: wave for one in out for o, wave in zip(one.orders, one.wave, strict=True)}

    cpu = torch.device("cpu")
    with pytest.MonkeyPatch.context() as patch:
        whole = model.say
        patch.setattr(model, "say", lambda *a, **named: whole(*a, 0.0, **named))
        together = said(Batches(model, voices, cpu, 1, 60.0), orders)
        alone = {k: v for o in orders for k, v in said(Batches(model, voices, cpu, 1, 0.1), [o]).items()}
    assert together.keys() == alone.keys() == {"0", "1", "2"}
    for name, wave in together.items():
        # Where the source is silent its spectrum's phases are rounding, so the rows are equal to a part in a hundred
        # and not to the bit.
        assert float((wave - alone[name]).norm() / alone[name].norm()) < 0.02


def test_the_source_is_a_tone_at_the_pitch_and_quiet_where_there_is_none() -> None:
    source = Source()
    with torch.no_grad():
        source.l_linear.weight.copy_(torch.eye(9)[:1])
        source.l_linear.bias.zero_()
        made = source(torch.cat([torch.full((1, 80), 240.0), torch.zeros(1, 80)], 1), 0.0)[0]
    spectrum = torch.fft.rfft(made[:24_000]).abs()
    assert int(spectrum.argmax()) == 240
    assert not made[24_000:].any()


def test_norms_are_those_of_instance_norm() -> None:
    x, scale, shift = torch.randn(2, 3, 50) * 4 + 9, torch.randn(2, 3, 1), torch.randn(2, 3, 1)
    alpha = torch.rand(1, 3, 1) + 0.5
    y = (1 + scale) * torch.nn.functional.instance_norm(x) + shift
    assert torch.allclose(styled(x, scale, shift, 0.2), torch.nn.functional.leaky_relu(y, 0.2), atol=1e-4)
    assert torch.allclose(snaked(x, scale, shift, alpha), y + torch.sin(alpha * y).square() / alpha, atol=1e-4)


def test_weights_come_back(model: Kokoro, tmp_path: Path) -> None:
    state = model.state_dict()
    save_weights(state, tmp_path / FILE)
    again = load(tmp_path).state_dict()
    for name, value in state.items():
        assert (again[name] - value).abs().max() <= value.abs().max() / 1000


def test_given_sentences_are_said_into_a_folder(model: Kokoro, voices: Voices, tmp_path: Path) -> None:
    save_weights(model.state_dict(), tmp_path / FILE)
    save_file({name: torch.zeros(510, 256).half() for name in voices.names}, tmp_path / "voices.safetensors")

    def tokens(text: str, accent: str) -> list[int]:
        assert accent == "en-gb"
        return [int(n) for n in text.split()]

    sentences = ["50 51", "52 53 54", " ".join(["55"] * 300)]
    assert speak(sentences, tmp_path, "owen", tmp_path / "out", tokens) == 1
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["000.wav", "001.wav"]
    assert soundfile.info(tmp_path / "out" / "001.wav").samplerate == 24_000


def test_mixtures_are_weighted_means_of_voices(voices: Voices) -> None:
    one, two = (voices.styles([Voice((i,), (1.0,), False)], 7) for i in (0, 1))
    mixed = voices.styles([Voice((0, 1), (0.25, 0.75), False), Voice((1,), (1.0,), False)], 7)
    assert torch.allclose(mixed, torch.cat([0.25 * one + 0.75 * two, two]), atol=1e-6)
    assert voices.own("owen").british and not voices.own("hugo").british
    for mixture in OWN.values():
        assert sum(mixture.values()) == pytest.approx(1)
    drawn = [voices.draw(np.random.default_rng(i)) for i in range(50)]
    assert {len(v.rows) for v in drawn} >= {1, 2} and all(sum(v.weights) == pytest.approx(1) for v in drawn)


def test_speakers_are_many_always_the_same_and_some_held_out(voices: Voices) -> None:
    rng = np.random.default_rng(1)
    said = list(islice(few_and_many(voices, rng, 0.5), 2000))
    own = Counter(voice.name for voice, _ in said if voice.name in OWN)
    others = Counter(voice.name for voice, _ in said if voice.name not in OWN)
    assert len(own) == 4 and min(own.values()) > 150 and 900 < others.total() < 1100
    assert len(others) > 100 and Counter(others.values()).most_common(1)[0][0] == 6
    assert all((voice, speed) == voices.speaker(int(voice.name[1:])) for voice, speed in said if voice.name in others)
    everyone = [voices.speaker(number)[0] for number in range(200)]
    assert len({(voice.rows, voice.weights, voice.pitch) for voice in everyone}) == 200
    assert all(len(voice.rows) > 1 for voice in everyone) and sum(voice.held_out for voice in everyone) == 5
    assert not any(voice.name in others for voice, _ in islice(few_and_many(voices, rng, 0.0), 100))
    assert {voice.name for voice, _ in islice(few_and_many(voices, rng, 0.0, ("maeve",)), 20)} == {"maeve"}
