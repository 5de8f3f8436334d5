"""Quality of codec and talker on held-out speech, as numbers: eval.json.

Codec, a voice: distance of log-mels in dB, STOI, ESTOI, PESQ wide band (both at 16 kHz), bits a second. With a
judge: phone errors of the recordings and of what the codec makes of them. Talker: phone errors, length against the
recording, sentences that failed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soxr
import torch
from numpy.typing import NDArray
from pystoi import stoi
from tokenizers import Tokenizer
from torch import Tensor

from training.tts.codec import Codec
from training.tts.codes import entropies
from training.tts.config import FRAME, RATE, Config
from training.tts.generate import Sampling, generate
from training.tts.judge import Judge
from training.tts.phones import errors
from training.tts.prompt import codec_ids
from training.tts.spectra import LogMel
from training.tts.speech import Utterance, load_shard, shards
from training.tts.talker import Talker
from training.tts.tokenizer import text_ids

try:  # its wheel must be compiled: what it measures is left out where that cannot be
    from pesq import pesq
except ImportError:
    pesq = None
Sample = tuple[Utterance, NDArray[np.float32]]
_LENGTHS = (0.7, 1.4)  # of the voice's median ratio to the reference: outside, words were skipped or repeated
_LOST = 0.4  # share of phone errors at which a sentence counts as failed


def held_out(folders: Sequence[Path], speaker: str, most: int) -> list[Sample]:
    """Held-out utterances of a speaker, different texts first, float32 [1920 · frames]."""
    found: list[Sample] = []
    for path in shards(folders):
        shard = load_shard(path)
        for u, wave, _ in shard.pieces():
            if u.held_out and u.speaker == speaker:
                found.append((u, wave.astype(np.float32) / 32768))
    first: dict[str, Sample] = {}
    for sample in found:
        first.setdefault(sample[0].text, sample)
    return (list(first.values()) + [s for s in found if first[s[0].text] is not s])[:most]


def likeness(recorded: NDArray[np.float32], decoded: NDArray[np.float32], spectra: LogMel) -> dict[str, float]:
    """Measures of two waveforms of one length at 24 kHz."""
    a, b = (soxr.resample(x, RATE, 16000) for x in (recorded, decoded))
    mels = [spectra(torch.from_numpy(x)[None]) for x in (recorded, decoded)]
    found = {
        "mel_db": 20 * float((mels[0] - mels[1]).abs().mean()), "stoi": float(stoi(a, b, 16000)),
        "estoi": float(stoi(a, b, 16000, extended=True)),
    }  # fmt: skip
    return found if pesq is None else found | {"pesq_wb": float(pesq(16000, a, b, "wb"))}


@dataclass
class PhoneErrors:
    """Sums over sentences."""

    substituted: int = 0
    deleted: int = 0
    inserted: int = 0
    phones: int = 0

    def add(self, said: Sequence[int], reference: Sequence[int]) -> float:
        """Count one sentence; returns its share of errors."""
        s, d, i = errors(said, reference)
        self.substituted, self.deleted, self.inserted = self.substituted + s, self.deleted + d, self.inserted + i
        self.phones += len(reference)
        return (s + d + i) / max(len(reference), 1)

    def rates(self) -> dict[str, float]:
        n = max(self.phones, 1)
        parts = {"substituted": self.substituted / n, "deleted": self.deleted / n, "inserted": self.inserted / n}
        return {"errors": round(sum(parts.values()), 4)} | {k: round(v, 4) for k, v in parts.items()}


@torch.inference_mode()
def evaluate_codec(codec: Codec, samples: Sequence[Sample], judge: Judge | None) -> dict[str, Any]:
    spectra = LogMel(1024, 240, 80)
    rows: list[dict[str, float]] = []
    codes: list[NDArray[np.int16]] = []
    recorded, through = PhoneErrors(), PhoneErrors()
    for u, wave in samples:
        x = torch.from_numpy(wave)
        made = codec.encode(x[None, None])
        y = codec.decoder(made)[0, 0]
        codes.append(made[0].T.to(torch.int16).numpy())
        rows.append(likeness(wave, y.numpy(), spectra))
        if judge is not None and u.phones:
            recorded.add(judge.listen(x), u.phones)
            through.add(judge.listen(y), u.phones)
    bits = entropies(np.concatenate(codes), codec.shape.codebook_size)
    out: dict[str, Any] = {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
    nominal = 12.5 * codec.shape.num_quantizers * np.log2(codec.shape.codebook_size)
    out |= {"clips": len(rows), "bit_s": round(float(nominal)), "bits_used": [round(b, 2) for b in bits]}
    if recorded.phones:
        out |= {"phones_recorded": recorded.rates(), "phones_codec": through.rates()}
    return out


@torch.inference_mode()
def evaluate_talker(
    config: Config, codec: Codec, talker: Talker, tokenizer: Tokenizer, judge: Judge, samples: Sequence[Sample],
    speaker: str, sampling: Sampling, out: Path | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Say the texts of `samples` as `speaker`; `out`: folder for the first waveforms."""
    text, ids = text_ids(tokenizer), codec_ids(config)
    found, ratios, unfinished, shares = PhoneErrors(), [], 0, []
    for i, (u, wave) in enumerate(samples):
        most = 3 * u.frames + 20
        own = Sampling(sampling.temperature, sampling.top_k, sampling.seed + i)
        codes = list(generate(talker, tokenizer.encode(u.text).ids, speaker, text, ids, own, most))
        unfinished += len(codes) == most
        y: Tensor = codec.decoder(torch.tensor(codes or [[0] * talker.books]).T[None])[0, 0]
        shares.append(found.add(judge.listen(y), u.phones))
        ratios.append(len(codes) * FRAME / len(wave))
        if out is not None and i < 8:
            import soundfile

            out.mkdir(parents=True, exist_ok=True)
            soundfile.write(out / f"{speaker}-{i}.wav", y.numpy(), RATE)
    median = float(np.median(ratios))
    odd = [not _LENGTHS[0] < r / max(median, 1e-3) < _LENGTHS[1] for r in ratios]
    failed = [s > _LOST or o for s, o in zip(shares, odd, strict=True)]
    worst = [(round(ratios[i], 2), round(shares[i], 2), samples[i][0].text) for i, bad in enumerate(failed) if bad]
    return {
        "sentences": len(ratios), "phones": found.rates(), "length_ratio": round(float(np.mean(ratios)), 3),
        "length_spread": round(float(np.std(ratios)), 3), "without_end": unfinished, "failed": sum(failed),
        "worst": worst[:8],
    }  # fmt: skip


def report(
    config: Config, codec: Codec, talker: Talker | None, tokenizer: Tokenizer | None, judge: Judge | None,
    folders: Sequence[Path], out: Path, clips: int, sentences: int,
) -> dict[str, Any]:  # fmt: skip
    """Everything that the given parts allow, printed and written to out/eval.json."""
    found: dict[str, Any] = {}
    for speaker in config.voices.speakers:
        samples = held_out(folders, speaker, max(clips, sentences))
        if not samples:
            continue
        found[f"codec {speaker}"] = evaluate_codec(codec, samples[:clips], judge)
        print(speaker, json.dumps(found[f"codec {speaker}"]), flush=True)
        if talker is not None and tokenizer is not None and judge is not None:
            said = evaluate_talker(
                config, codec, talker, tokenizer, judge, samples[:sentences], speaker, Sampling(), out / "wav"
            )
            found[f"talker {speaker}"] = said
            print(speaker, json.dumps(said), flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "eval.json").write_text(json.dumps(found, indent=1) + "\n")
    return found
