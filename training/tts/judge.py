"""A phone recogniser that judges intelligibility: waveform -> phone logits at 50 Hz, trained on the labels that
codec training has.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional as F

from training.tts.codec import half
from training.tts.crops import Crops, place
from training.tts.graph import autocast
from training.tts.phones import PHONES, SILENCE, UNKNOWN
from training.tts.rate import rate_at
from training.tts.spectra import LogMel
from training.tts.speech import load_speech

_SHORTEST = 2  # labels of 20 ms below which a phone is noise
_RATE, _BATCH, _FRAMES = 2e-3, 32, 40
_HOURS = 5.0  # of synthetic speech


class Judge(nn.Module):
    """Dilated convolutions over 80 log-mel bands, not causal: [B, 1920 · T] -> [B, phones, 4 · T]."""

    def __init__(self, width: int = 192) -> None:
        super().__init__()
        self.spectra = LogMel(1024, 240, 80)
        self.stem = nn.Conv1d(80, width, 5, stride=2, padding=2)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm1d(width), nn.GELU(), nn.Conv1d(width, width, 5, padding=2 * d, dilation=d),
                nn.BatchNorm1d(width), nn.GELU(), nn.Conv1d(width, width, 1),
            )
            for d in (1, 2, 4, 1, 2, 4)
        )  # fmt: skip
        self.head = nn.Conv1d(width, len(PHONES), 1)

    def forward(self, wave: Tensor) -> Tensor:
        mel = self.spectra(wave)
        h = self.stem(mel - mel.mean((1, 2), keepdim=True))
        for block in self.blocks:
            h = h + block(h)
        return self.head(h)

    @torch.inference_mode()
    def listen(self, wave: Tensor) -> list[int]:
        """Waveform float32 [1920 · T] -> phones, without silence and repeats."""
        best = self(wave[None])[0].argmax(0).tolist()
        out: list[int] = []
        start = 0
        fresh = True
        for i in range(1, len(best) + 1):
            if i < len(best) and best[i] == best[start]:
                continue
            phone, length = best[start], i - start
            if phone == SILENCE:
                fresh = fresh or length >= _SHORTEST
            elif length >= _SHORTEST and (fresh or out[-1] != phone):
                out.append(phone)
                fresh = False
            start = i
        return out


def train_judge(
    folders: Sequence[Path], synthetic: str, path: Path, seconds: float, steps: int, device: torch.device
) -> None:
    """Train on the speech in `folders` and save; half of the rows are of the recorded voice."""
    torch.manual_seed(1)
    parts = load_speech(folders, synthetic, _HOURS)
    voices = [place(part, device, held_out=False) for part in parts]
    crops = Crops(voices[0], voices[1], 0.5, 0.06)
    judge = Judge().to(device).train()
    optimizer = torch.optim.AdamW(judge.parameters(), _RATE, weight_decay=0.01)
    began, step = time.monotonic(), 0
    while (gone := time.monotonic() - began) < seconds and step < steps:
        for group in optimizer.param_groups:
            group["lr"] = rate_at(max(gone / seconds, step / steps), step, _RATE, 0.02, 50)
        wave, _, labels = crops.take(_BATCH if device.type == "cuda" else 8, _FRAMES)
        wave = wave[:, 0] + torch.randn_like(wave[:, 0]) * 10 ** (-2.5 - 2 * torch.rand(len(wave), 1, device=device))
        with autocast(device):
            logits = judge(wave)
        loss = F.cross_entropy(logits.float(), labels, ignore_index=UNKNOWN)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(judge.parameters(), 1.0)
        optimizer.step()
        step += 1
        if step % 100 == 0:
            known = labels != UNKNOWN
            right = ((logits.argmax(1) == labels) & known).sum() / known.sum()
            print(
                f"[judge {time.monotonic() - began:.0f} s] {step} loss {loss.item():.3f} accuracy {right.item():.3f}",
                flush=True,
            )
    path.parent.mkdir(parents=True, exist_ok=True)
    save_file(half(judge.state_dict()), path, {"format": "pt"})


def load_judge(path: Path) -> Judge:
    judge = Judge()
    judge.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in load_file(path).items()})
    return judge.eval()
