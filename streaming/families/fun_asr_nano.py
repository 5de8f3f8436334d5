"""Fun-ASR-Nano: its front end, its conversation and how its whole clips are heard.

Front end: natural log mel energies as funasr's WavFrontend computes them without dither (samples of 16 bits, mean of a
frame taken off, pre-emphasis .97, Hamming window, power spectrum, floor at float32's epsilon). Frame t sees the samples
hop·t up to, not including, hop·t + frame_length, so no later sample changes it: n samples give 1 + (n - frame_length)
// hop of them. Row r is the ``stacked`` frames around frame step·r; where the clip has none, its first or last again.

Audio: every row attends to every other, before and after, and of n embeddings only the first n / 8 go into the decoder:
a window by itself is nothing this model was trained on, so nothing of an open segment can be frozen. What is frozen are
the frames. Each look encodes the segment from its beginning; that is bounded by the longest segment, the decoder's
share of it is small (⌈n / 8⌉ rows), and the listener looks less often where a look takes longer. A final's rows follow
from its samples alone, so its text is the same however the audio arrived.

Conversation: ``<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n<|im_start|>user\\n语音转写成中文：`` ·
audio rows · ``<|im_end|>\\n<|im_start|>assistant\\n``. Source: funasr, models/fun_asr_nano/model.py (get_prompt,
data_load_speech).
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from engines.files import load_floats
from engines.lane import Steps
from engines.manifest import AsrManifest, FunAsr, ManifestError, Mel
from streaming.encoder import AudioEncoder, Encoded
from streaming.mel import LogMel, load_filters
from streaming.prompt import Answer, Prompt
from streaming.windows import SampleBuffer
from streaming.work import Work

Floats = npt.NDArray[np.float32]

PRE_EMPHASIS: Final = 0.97
SCALE: Final = 32768.0
"""Samples are those of 16 bits."""


class Fbank(LogMel):
    """The front end of one model: what its sessions share."""

    def __init__(self, directory: Path, mel: Mel, spec: FunAsr, step: int) -> None:
        """``step``: frames from one row to the next.

        Raises:
            ManifestError: a table cannot be read or holds something else.
        """
        super().__init__(mel, load_filters(directory / mel.filters))
        self.spec, self.step = spec, step
        count = spec.frame_length
        self._window = 0.54 - 0.46 * np.cos(2 * np.pi * np.arange(count) / (count - 1))
        self._cmvn = None if spec.cmvn is None else load_floats(directory / spec.cmvn)

    def count(self, samples: int) -> int:
        """Frames of a clip of so many samples."""
        return max(1 + (samples - self.spec.frame_length) // self.mel.hop_length, 0)

    def frames(self, padded: Floats, count: int) -> Floats:
        """Log mel energies of ``count`` frames, float32 [count, bins]; frame i begins at ``padded[hop·i]``."""
        length, hop = self.spec.frame_length, self.mel.hop_length
        windows = np.lib.stride_tricks.sliding_window_view(padded, length)[::hop][:count] * SCALE
        # In double precision, as LogMel's.
        centred = windows - windows.mean(axis=1, keepdims=True, dtype=np.float64)
        before = np.concatenate([centred[:, :1], centred[:, :-1]], axis=1)
        spectrum = np.fft.rfft((centred - PRE_EMPHASIS * before) * self._window, self.mel.n_fft)
        energy = self.energies(spectrum.real**2 + spectrum.imag**2)
        return np.log(np.maximum(energy, np.finfo(np.float32).eps)).astype(np.float32)

    def rows(self, frames: Floats) -> Floats:
        """Rows of a clip of ``frames`` [n, bins]: float32 [⌈n / step⌉, stacked · bins]."""
        starts = np.arange(0, len(frames), self.step) - (self.spec.stacked - 1) // 2
        places = np.clip(starts[:, None] + np.arange(self.spec.stacked), 0, len(frames) - 1)
        rows = frames[places].reshape(len(starts), -1)
        return rows if self._cmvn is None else (rows + self._cmvn[0]) * self._cmvn[1]


class WholeClip(SampleBuffer):
    """Audio of one segment, with the methods of ``streaming.families.Clip``. One piece of work at a time."""

    def __init__(self, encoder: AudioEncoder, front: Fbank, work: Work) -> None:
        self._encoder, self._front, self._work = encoder, front, work
        super().__init__()
        self._frames = np.empty((0, front.mel.bins), np.float32)

    def _heard(self, count: int) -> Floats:
        """The first ``count`` frames, computed once each."""
        front, known = self._front, len(self._frames)
        if count > known:
            new = front.frames(self._samples[front.mel.hop_length * known : self.length], count - known)
            self._work.mel_frames += len(new)
            self._frames = np.concatenate([self._frames, new])
        return self._frames[:count]

    def take(self) -> Steps[Encoded]:
        """There are no windows: none is ever complete."""
        raise AssertionError("a whole clip has no windows")

    def tail(self, end: int, quiet: int = 0) -> Steps[Encoded]:
        """The rows of the clip that ends at sample ``end``: the embeddings that go into the decoder, and all of the CTC
        head's. ``quiet``: heard by no released model of this kind, so it is not added."""
        front, began = self._front, time.perf_counter()
        frames = self._heard(front.count(end))
        if not len(frames):  # A clip shorter than a frame is filled up with zeros.
            frames = front.frames(np.pad(self._samples[:end], (0, front.spec.frame_length - end)), 1)
        rows = front.rows(frames)
        self._work.mel_seconds += time.perf_counter() - began
        began = time.perf_counter()
        found = yield from self._encoder.body(rows)
        self._work.body_seconds += time.perf_counter() - began
        self._work.body_tails += 1
        return Encoded(found.embeddings[: front.spec.decoder_rows(len(rows))], found.ctc)


NAMES: Final = {
    "zh": "中文", "en": "英文", "yue": "粤语", "ja": "日文", "ko": "韩文", "vi": "越南语", "id": "印尼语", "th": "泰语",
    "ms": "马来语", "fil": "菲律宾语", "ar": "阿拉伯语", "hi": "印地语", "bg": "保加利亚语", "hr": "克罗地亚语",
    "cs": "捷克语", "da": "丹麦语", "nl": "荷兰语", "et": "爱沙尼亚语", "fi": "芬兰语", "el": "希腊语",
    "hu": "匈牙利语", "ga": "爱尔兰语", "lv": "拉脱维亚语", "lt": "立陶宛语", "mt": "马耳他语", "pl": "波兰语",
    "pt": "葡萄牙语", "ro": "罗马尼亚语", "sk": "斯洛伐克语", "sl": "斯洛文尼亚语", "sv": "瑞典语",
}  # fmt: skip
"""ISO code → the name that the model was trained with (Fun-ASR, README)."""
CONTEXT: Final = (
    "请结合上下文信息，更加准确地完成语音转写任务。如果没有相关信息，我们会留空。\n\n\n"
    "**上下文信息：**\n\n\n热词列表：[{}]\n"
)
SCRIPTS: Final = (
    ("ja", "\u3040", "\u30ff"),
    ("ko", "\uac00", "\ud7a3"),
    ("th", "\u0e00", "\u0e7f"),
    ("zh", "\u4e00", "\u9fff"),
)
"""Languages whose words are told by their script, and its range; kana before the characters that it stands among."""


class FunAsrPrompt(Prompt):
    """As :class:`Prompt`. The model does not say which language it hears: where none is forced, the script of its text
    tells those that are written in one of their own."""

    def __init__(self, tokenizer: Tokenizer, spec: FunAsr, *, leading_space: bool) -> None:
        self._spec = spec
        super().__init__(tokenizer, leading_space=leading_space)

    def _template(self) -> None:
        system = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n" if self._spec.system else ""
        self._before = f"{system}<|im_start|>user\n"
        thoughts = "" if self._spec.think else "<think>\n\n</think>\n\n"
        self._suffix = self._ids(f"<|im_end|>\n<|im_start|>assistant\n{thoughts}")

    def head(self, keyterms: Sequence[str], language: str | None = None) -> list[int]:
        terms = ", ".join(" ".join(term.split()) for term in keyterms)
        context = CONTEXT.format(terms) if terms else ""
        # A language that this model has no name for is left to it.
        name = NAMES.get(language or "")
        return self._ids(f"{self._before}{context}语音转写{f'成{name}' if name else ''}：")

    def suffix(self, language: str | None) -> list[int]:
        return list(self._suffix)

    def answer(self, tokens: Sequence[int], language: str | None) -> Answer:
        text = self.text(tokens)
        if language is None:
            found = (code for code, first, last in SCRIPTS if any(first <= letter <= last for letter in text))
            language = next(found, None)
        return Answer(language, tuple(tokens), text)


class Family:
    """As ``streaming.families.Family``."""

    def __init__(self, directory: Path, manifest: AsrManifest, tokenizer: Tokenizer) -> None:
        spec = manifest.fun_asr
        if spec is None:
            raise ManifestError(f"{directory}: fun_asr: missing, which the family {manifest.family} needs")
        self.prompt = FunAsrPrompt(tokenizer, spec, leading_space=manifest.tokenizer.leading_space)
        self.log_mel = Fbank(directory, manifest.mel, spec, manifest.encoder.chunk_frames)

    def rows(self, encoded: int) -> int:
        """The first of them."""
        return self.log_mel.spec.decoder_rows(encoded)

    def clip(self, encoder: AudioEncoder, work: Work, mel_maximum: float | None = None) -> WholeClip:
        """Its floor is a fixed one: ``mel_maximum`` says nothing."""
        return WholeClip(encoder, self.log_mel, work)
