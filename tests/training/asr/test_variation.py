"""What the augmentation varies, and what must not move."""

import pytest

pytest.importorskip("torch")

import torch

from training.asr.augment import mix_style, paces, read_at


def test_the_pace_changes_inside_and_the_ends_stay() -> None:
    torch.manual_seed(1)
    frames = torch.tensor([800, 700, 300, 799, 50, 1, 800, 640])
    ramp = (torch.arange(800.0) / 800).expand(len(frames), 4, 800)
    read = paces(frames, 800, torch.tensor(1.0))
    out = read_at(ramp, read)
    assert out.shape == ramp.shape
    changed = 0
    for row, n in enumerate(frames.tolist()):
        assert float((out[row, :, 0] - ramp[row, :, 0]).abs().max()) == 0
        assert float((out[row, :, n - 1] - ramp[row, :, n - 1]).abs().max()) < 1e-3
        assert (out[row, 0, :n].diff() >= 0).all(), "time never runs backwards"
        torch.testing.assert_close(out[row, 0, :n], read[row, :n] / 800)
        changed += float((out[row, :, :n] - ramp[row, :, :n]).abs().max()) > 5 / 800
    assert 2 <= changed < len(frames)
    still = read_at(ramp, paces(frames, 800, torch.tensor(0.0)))
    torch.testing.assert_close(still[0, :, :-1], ramp[0, :, :-1])


def test_rows_move_towards_another_rows_statistics() -> None:
    torch.manual_seed(2)
    spread, offset = torch.tensor([0.5, 1.0])[:, None, None], torch.tensor([0.0, 2.0])[:, None, None]
    mel = torch.randn(2, 16, 500) * spread + offset
    frames = torch.tensor([500, 500])
    out = mix_style(mel, frames, torch.tensor(1.0))
    before, after = mel.mean((1, 2)), out.mean((1, 2))
    assert before[0] < after[0] < before[1] and before[0] < after[1] < before[1]
    assert mel.std((1, 2))[0] < out.std((1, 2))[0] and out.std((1, 2))[1] < mel.std((1, 2))[1]
    torch.testing.assert_close(mix_style(mel, frames, torch.tensor(0.0)), mel)
