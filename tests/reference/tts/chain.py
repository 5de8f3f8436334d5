"""Talker and predictor of a model directory, run greedily by docs/export.md and codec/prompt.py alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from engines import manifest as manifests
from engines.gguf import Decoder, Rows

Floats = NDArray[np.float32]
Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Prompt:
    """Rows [n, width] to begin with, and the text rows still to be added, one a frame."""

    rows: Floats
    trailing: Floats


class Chain:
    """One speaker at a time; float32 KV."""

    def __init__(self, directory: Path, threads: int = 1) -> None:
        self.manifest = manifests.read_tts(directory)
        self.codebooks, self.entries = self.manifest.codec.codebooks, self.manifest.codec.entries
        self.text = np.load(directory / self.manifest.text_rows).astype(np.float32)
        self.code = np.load(directory / self.manifest.code_rows).astype(np.float32)
        small = self.manifest.predictor
        self.heads = np.load(directory / small.heads).astype(np.float32)
        self.weight = None if small.weight is None else np.load(directory / small.weight)
        self.bias = None if small.bias is None else np.load(directory / small.bias)
        self.small = self.enter(self.code) if small.rows is None else np.load(directory / small.rows).astype(np.float32)
        self.talker = Decoder(
            directory / self.manifest.talker.file, sequences=1, rows=512, threads=threads, kv="f32", hidden=True
        )
        self.predictor = Decoder(
            directory / small.decoder.file, sequences=1, rows=256, threads=threads, kv="f32", hidden=True
        )
        self.talker.acquire(), self.predictor.acquire()
        self.tokenizer = Tokenizer.from_file(str(directory / self.manifest.tokenizer.file))

    def close(self) -> None:
        self.talker.close()
        self.predictor.close()

    def enter(self, hidden: Floats) -> Floats:
        """What goes into the predictor for a row of the talker's width."""
        return hidden if self.weight is None or self.bias is None else hidden @ self.weight + self.bias

    def place(self, book: int, code: int) -> int:
        """Row of ``code`` of codebook ``book``."""
        return code if book == 0 else self.manifest.talker.vocabulary + (book - 1) * self.entries + code

    def ids(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def prompt(
        self,
        text: str,
        *,
        layout: str = "stream",
        voice: str | None = None,
        language: str | None = None,
        instruction: str | None = None,
        embedding: Floats | None = None,
        reference: tuple[str, Codes] | None = None,
    ) -> Prompt:
        """The rows that a talker starts from. ``reference``: what the cloned speaker said, and its frames [n, Q]."""
        ids, t, c = self.manifest.tokens, self.text, self.code
        speaker = None if voice is None else self.manifest.voices[voice]
        tag = None if language is None else self.manifest.language_ids[language]
        if speaker is not None and speaker.dialect is not None and language in (None, "zh"):
            tag = self.manifest.language_ids[speaker.dialect]
        if tag is None:
            tags = [ids.codec_nothink, ids.codec_think_bos, ids.codec_think_eos]
        else:
            assert ids.codec_think is not None
            tags = [ids.codec_think, ids.codec_think_bos, tag, ids.codec_think_eos]
        rows = [t[list(ids.role)], t[ids.tts_pad] + c[tags]]
        if instruction is not None:
            rows.insert(0, t[self.ids(f"<|im_start|>user\n{instruction}<|im_end|>\n")])
        if speaker is not None:
            rows.append(t[[ids.tts_pad]] + c[[speaker.id]])
        if embedding is not None:
            rows.append(t[[ids.tts_pad]] + embedding[None])
        rows.append(t[[ids.tts_bos]] + c[[ids.codec_pad]])
        words = t[[*self.ids(text), ids.tts_eos]]
        if reference is not None:
            said, frames = reference
            words = np.concatenate((t[self.ids(said)], words))
            heard = np.stack(
                [c[[self.place(book, code) for book, code in enumerate(frame)]].sum(0) for frame in frames]
            )
            heard = np.concatenate((c[[ids.codec_bos]], heard))
            if layout == "whole":
                return Prompt(np.concatenate([*rows, words + c[ids.codec_pad], heard + t[ids.tts_pad]]), words[:0])
            padded = np.concatenate((words, t[[ids.tts_pad]].repeat(max(0, len(heard) - len(words)), 0)))
            return Prompt(np.concatenate([*rows, padded[: len(heard)] + heard]), padded[len(heard) :])
        if layout == "stream":
            return Prompt(np.concatenate([*rows, words[:1] + c[[ids.codec_bos]]]), words[1:])
        rows += [words + c[ids.codec_pad], t[[ids.tts_pad]] + c[[ids.codec_bos]]]
        return Prompt(np.concatenate(rows), words[:0])

    def frames(self, prompt: Prompt, count: int, forced: Codes | None = None) -> tuple[Codes, Codes]:
        """``count`` greedy frames [count, Q]; with ``forced`` the model is fed those instead of its own choices.

        Returns the choices, and how many of a frame's logits the best leads by less than 1e-3 of their deviation.
        """
        said: list[list[int]] = []
        close: list[int] = []
        rows = prompt.rows
        start = 0
        for frame in range(count):
            output = self.talker.outputs([Rows(0, start, rows, len(rows) - 1)])[0]
            start += len(rows)
            logits = self.banned(
                output.logits[0], [row[0] for row in (said if forced is None else forced[:frame])], frame
            )
            choices, ties = [int(logits.argmax())], [narrow(logits)]
            codes = [choices[0] if forced is None else int(forced[frame, 0])]
            given = np.stack((self.enter(output.hidden[0]), self.small[self.place(0, codes[0])]))
            for book in range(1, self.codebooks):
                position = 0 if book == 1 else book
                hidden = self.predictor.outputs([Rows(0, position, given, len(given) - 1)])[0].hidden[0]
                logits = self.heads[book - 1] @ hidden
                choices.append(int(logits.argmax()))
                ties.append(narrow(logits))
                codes.append(choices[book] if forced is None else int(forced[frame, book]))
                given = self.small[[self.place(book, codes[book])]]
            said.append(choices if forced is not None else codes)
            close.append(sum(ties))
            following = (
                prompt.trailing[frame] if frame < len(prompt.trailing) else self.text[self.manifest.tokens.tts_pad]
            )
            rows = self.code[[self.place(book, code) for book, code in enumerate(codes)]].sum(0)[None] + following
        return np.array(said), np.array(close)

    def banned(self, logits: Floats, seen: Sequence[int], frame: int) -> Floats:
        """The official order: repetition penalty, no end in the first frames, no control ids."""
        logits = logits.copy()
        places = sorted(set(map(int, seen)))
        penalty = np.float32(self.manifest.sampling.repetition_penalty)
        logits[places] = np.where(logits[places] < 0, logits[places] * penalty, logits[places] / penalty)
        end = self.manifest.tokens.codec_eos
        kept = logits[end] if frame >= self.manifest.sampling.min_frames else -np.inf
        logits[self.entries :] = -np.inf
        logits[end] = kept
        return logits


def narrow(logits: Floats) -> bool:
    """Whether rounding could decide between the two best."""
    best = np.sort(logits[np.isfinite(logits)])[-2:]
    return bool(best[1] - best[0] < 1e-3 * logits[np.isfinite(logits)].std())
