"""The Qwen3-TTS prompt, row by row: text stream + codec stream, summed.

Source: QwenLM/Qwen3-TTS, modeling_qwen3_tts.py:2074-2237, qwen3_tts_model.py:269-276. T(x) is the projected embedding
of text id x, C(x) that of codec id x::

    [instruction]  T(<|im_start|>user\\n … <|im_end|>\\n)                        text only
    role           T(<|im_start|>) T(assistant) T(\\n)                           text only
    tags           T(pad) + C(think), C(think_bos), C(language), C(think_eos)    or nothink, think_bos, think_eos
    speaker        T(pad) + C(voice)                                             or a stored voice's vector, or absent
                   T(tts_bos) + C(pad)

What follows depends on the layout. ``stream``: T(t0) + C(bos), then T(t1), … T(tts_eos), T(pad), T(pad) …, each added
to the row of the frame before it: one text token a frame. ``whole``: T(t0) + C(pad), … T(tts_eos) + C(pad),
T(pad) + C(bos), then T(pad) for every frame. A cloned voice with its reference (modeling_qwen3_tts.py:1999-2019): the
text stream is reference text ‖ text ‖ tts_eos, the codec stream C(bos) ‖ the reference's frames, added one to one; a
longer text goes on with the frames to come, a shorter one is filled up with T(pad).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from codec.rows import CodeTable, Table
from codec.voices import Reference, StoredVoice
from engines.files import load_tokenizer
from engines.manifest import ManifestError, TtsManifest
from engines.sessions import OptionError

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Body:
    """A piece whose text is all there.

    ``rows`` float32 [n, width] go in after the head; ``row`` [width] is the codec's part of the next one, and ``rest``
    [k, width] are text rows still to come, one a frame from that one on; after them padding.
    """

    rows: Floats
    row: Floats
    rest: Floats


HEAD_ROWS: Final = 256
"""How many rows may stand before the text; a longer instruction is refused."""


class Prompt:
    """Rows of the prompt and of the text. Stateless after construction; thread-safe."""

    def __init__(self, manifest: TtsManifest, tokenizer: Tokenizer, text: Table, codes: CodeTable) -> None:
        self._manifest, self._tokenizer, self._text, self._codes = manifest, tokenizer, text, codes
        tokens = manifest.tokens
        self.pad, self.eos, self.bos = self._text([tokens.tts_pad, tokens.tts_eos, tokens.tts_bos])
        self._none = np.empty((0, text.width), np.float32)
        self.codec_bos, self._codec_pad = codes([tokens.codec_bos, tokens.codec_pad])

    @classmethod
    def load(cls, manifest: TtsManifest, directory: Path, codes: CodeTable) -> "Prompt":
        """Read tokenizer and text rows.

        Raises:
            ManifestError: one of them cannot be read, or they do not belong together.
        """
        tokenizer = load_tokenizer(directory / manifest.tokenizer.file)
        tokenizer.encode_special_tokens = True  # "<|im_end|>" in a user's text is just text.
        path = directory / manifest.text_rows
        text, ids = Table(path), tokenizer.get_vocab_size()
        if text.width != codes.width:
            raise ManifestError(f"{path}: rows {text.width} wide, those of codes are {codes.width}")
        if text.size < ids:
            raise ManifestError(f"{path}: {text.size} rows, {manifest.tokenizer.file} has {ids} tokens")
        return cls(manifest, tokenizer, text, codes)

    def encode(self, text: str) -> list[int]:
        """Token ids of a fragment. Fragments begin where words do, so their ids are those of the whole text."""
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def _special(self, name: str) -> int:
        found = self._tokenizer.token_to_id(name)
        if found is None:
            raise OptionError("instructions", f"the tokenizer of {self._manifest.name} has no {name}")
        return found

    def spelling(self, token: int) -> str:
        """A token as the vocabulary spells it: one character a byte of UTF-8."""
        return self._tokenizer.id_to_token(token) or ""

    def text_rows(self, ids: Sequence[int]) -> Floats:
        """T: float32 [n, width]."""
        return self._text(ids)

    def head(self, voice: str | StoredVoice | None, language: str | None, instructions: str | None) -> Floats:
        """Everything before the text: float32 [n ≤ HEAD_ROWS, width].

        Args:
            voice: a preset of the manifest, a stored voice, or None for a model without speakers.
            language: a key of the manifest's ``language_ids``, or None.
            instructions: only where the manifest allows them.

        Raises:
            OptionError: too long an instruction.
        """
        m, tokens = self._manifest, self._manifest.tokens
        parts: list[Floats] = []
        if instructions:
            start, end = (self._special(name) for name in ("<|im_start|>", "<|im_end|>"))
            ids = [start, *self.encode(f"user\n{instructions}"), end, *self.encode("\n")]
            room = HEAD_ROWS - 16
            if len(ids) > room:
                raise OptionError("instructions", f"{len(ids)} tokens, the limit is {room}")
            parts.append(self._text(ids))
        parts.append(self._text(tokens.role))
        tags = [tokens.codec_nothink, tokens.codec_think_bos, tokens.codec_think_eos]
        if language is not None and tokens.codec_think is not None:
            tags = [tokens.codec_think, tokens.codec_think_bos, m.language_ids[language], tokens.codec_think_eos]
        parts.append(self.pad + self._codes(tags))
        if isinstance(voice, StoredVoice):
            parts.append((self.pad + voice.embedding)[None])
        elif voice is not None:
            parts.append(self.pad + self._codes([m.voices[voice].id]))
        parts.append((self.bos + self._codec_pad)[None])
        return np.concatenate(parts)

    def whole(self, ids: Sequence[int]) -> Body:
        """The ``whole`` layout."""
        rows = np.concatenate([self._text(ids), self.eos[None]]) + self._codec_pad
        return Body(rows, self.codec_bos, self._none)

    def cloned(self, ids: Sequence[int], reference: Reference) -> Body:
        """The layout of a cloned voice with its reference: the reference's text and the new one beside its frames."""
        text = np.concatenate([self._text([*self.encode(reference.text), *ids]), self.eos[None]])
        codes = np.stack([self.codec_bos, *(self._codes.frame(frame) for frame in reference.codes.tolist())])
        missing = len(codes) - len(text)
        if missing > 0:
            text = np.concatenate([text, np.repeat(self.pad[None], missing, axis=0)])
        last = len(codes) - 1
        return Body(text[:last] + codes[:last], codes[last], text[last:])
