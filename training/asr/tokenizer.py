"""The byte-level BPE in Qwen2's file format (vocab.json, merges.txt, tokenizer.json), special tokens last.

Contract: the words of the chat template ("system", "user", "assistant", "language", " English", " None") are single
tokens, so a prompt costs as few rows as the official one. Transcripts are encoded with a leading space ("hello world"
-> " hello world"), which makes the encoding of a text the concatenation of the encodings of its words.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.transcript import written

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|audio_start|>",
    "<|audio_end|>",
    "<|audio_pad|>",
    "<asr_text>",
    "<timestamp>",
)
# The pre-tokenizer expression of Qwen2's published tokenizer.json.
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_TEMPLATE = ("system", "user", "assistant", "language English", "language None")


def byte_level_bpe(lines: list[str], vocab: int, special: Sequence[str]) -> Tokenizer:
    """Qwen2's tokenizer learnt of `lines`; `vocab` counts the special tokens, which come last."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab - len(special), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.add_special_tokens(list(special))
    return tokenizer


def train_tokenizer(sentences: Iterable[str], vocab: int, folder: Path) -> Tokenizer:
    """Train on `sentences` as the models write them, and write the three files to `folder`. `vocab` counts the special
    tokens."""
    lines = [" " + written(s) for s in sentences]
    # Enough copies that every template word is merged into one token before rarer pieces are.
    tokenizer = byte_level_bpe(list(_TEMPLATE) * max(len(lines) // 40, 200) + lines, vocab, SPECIAL)
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.model.save(str(folder))
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer
