"""The prompt: the byte-level BPE of the text, Qwen2's, with the official names of the speech tokens; and the official
streaming layout, in which every position is the sum of a text embedding and a codec embedding.

role (text only) · tags with <tts_pad> · speaker with <tts_pad> · <tts_text_bos> with codec pad · first text token
with codec bos; then text token i + 1 with frame i, <tts_text_eod> after the last text token, <tts_pad> from there
on. Position of codec bos predicts frame 0, position of frame i predicts frame i + 1 or the end.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.checkpoint import TOKENIZER
from training.tts.config import Config

PAD, BOS, EOS = "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", PAD, BOS, EOS)
# The pre-tokenizer expression of Qwen2's published tokenizer.json.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
LANGUAGE = "english"
Place = tuple[int, int, int, int]
"""Where a speaker's utterances begin and how many frames they have; the end of one among them and its frames."""


@dataclass(frozen=True)
class TextIds:
    """Token ids of the prompt. role: <|im_start|> assistant newline."""

    im_start: int
    im_end: int
    assistant: int
    pad: int
    bos: int
    eos: int
    role: tuple[int, int, int]


def train_tokenizer(texts: Iterable[str], vocab: int, folder: Path) -> Tokenizer:
    """Train on speakable `texts` and write tokenizer.json to `folder`. `vocab` counts the special tokens, which come
    last."""
    lines = list(texts)
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(_SPLIT), "isolated")
    bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_of])
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=vocab - len(SPECIAL), initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(lines + ["assistant"] * max(len(lines) // 20, 1), trainer)
    tokenizer.add_special_tokens(list(SPECIAL))
    if tokenizer.get_vocab_size() != vocab:
        raise ValueError(f"text_vocab_size: {vocab} asked, {tokenizer.get_vocab_size()} learnt; give more text")
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / TOKENIZER))
    return tokenizer


def text_ids(tokenizer: Tokenizer) -> TextIds:
    """Ids of the prompt's tokens; ValueError where the template's word is not one token."""
    role = tokenizer.encode("<|im_start|>assistant\n").ids
    if len(role) != 3:
        raise ValueError(f"tokenizer: <|im_start|>assistant\\n is {len(role)} tokens, must be 3")
    start, end, pad, bos, eos = (tokenizer.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>", PAD, BOS, EOS))
    return TextIds(start, end, role[1], pad, bos, eos, (role[0], role[1], role[2]))


@dataclass(frozen=True)
class CodecIds:
    """Control ids of the codec vocabulary; codes come before them."""

    pad: int
    bos: int
    eos: int
    think: int
    nothink: int
    think_bos: int
    think_eos: int
    language: int
    speakers: dict[str, int]


def codec_ids(config: Config) -> CodecIds:
    """Ids for `config`: eight tags right after the codes, then the speakers in their order."""
    first = config.codec.codebook_size
    speakers = {name: first + 8 + i for i, name in enumerate(config.speakers)}
    return CodecIds(*(first + i for i in range(8)), speakers)


@dataclass(frozen=True)
class Row:
    """One utterance laid out, S positions. text int16 [S]; codes int16 [S, K]: those of a position that holds a frame,
    else a control id and zeros (-1: no codec embedding). begin: the first position of text and frames; place: where
    the speaker is heard (references.py), None for one who has an id.
    """

    text: NDArray[np.int16]
    codes: NDArray[np.int16]
    begin: int
    tokens: int
    frames: int
    place: Place | None = None


def head(text: TextIds, codec: CodecIds, speaker: str, *, language: bool) -> tuple[list[int], list[int]]:
    """Text and codec ids of the positions before the first text token."""
    known = [codec.think, codec.think_bos, codec.language, codec.think_eos]
    tags = known if language else [codec.nothink, codec.think_bos, codec.think_eos]
    control = [*tags, codec.speakers.get(speaker, -1), codec.pad]
    return [*text.role, *[text.pad] * (len(control) - 1), text.bos], [-1] * len(text.role) + control


def lay_out(
    codes: NDArray[np.int16], tokens: Sequence[int], speaker: str, text: TextIds, codec: CodecIds, *, language: bool
) -> Row:
    """codes int16 [n, K] and the text's `tokens` -> a row of len(head) + n + 1 positions. ValueError where the text
    does not end before the speech: the layout has one text token a frame.
    """
    before_text, before_codec = head(text, codec, speaker, language=language)
    start, n, length = len(before_text), len(codes), len(tokens)
    if length + 1 > n + 1:
        raise ValueError(f"tokens: {length} for {n} frames; the streaming layout takes one token a frame")
    size = start + n + 1
    text_row, codes_row = np.full(size, text.pad, np.int16), np.zeros((size, codes.shape[1]), np.int16)
    text_row[:start], codes_row[:start, 0] = before_text, before_codec
    text_row[start : start + length] = tokens
    text_row[start + length] = text.eos
    codes_row[start, 0], codes_row[start + 1 :] = codec.bos, codes
    return Row(text_row, codes_row, start, length, n)
