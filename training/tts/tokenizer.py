"""The byte-level BPE of the talker's text, Qwen2's, with the official names of the speech tokens."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from training.checkpoint import TOKENIZER

PAD, BOS, EOS = "<tts_pad>", "<tts_text_bos>", "<tts_text_eod>"
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", PAD, BOS, EOS)
# This is the pre-tokenizer's expression in Qwen2's published tokenizer.json.
_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


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
