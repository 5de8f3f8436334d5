"""The tokenizer as one tokenizer.json, whichever of Qwen2's formats the checkpoint brings."""

import json
import shutil
from pathlib import Path
from typing import Any

from export.checkpoint import Checkpoint, CheckpointError, read_json

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""Qwen2's pre-tokenisation (transformers, models/qwen2/tokenization_qwen2.py)."""

NEEDED = ("<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>", "<asr_text>")
"""Tokens without which no prompt can be written."""

ALIGNER_NEEDED = ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>", "<timestamp>")
"""Those of a ForcedAligner's prompt."""


def write_tokenizer(checkpoint: Checkpoint, vocabulary: int, path: Path, needed: tuple[str, ...] = NEEDED) -> None:
    """Write ``path`` from tokenizer.json, or from vocab.json, merges.txt and the added tokens.

    ``needed``: tokens that the prompt is written with.

    Raises:
        CheckpointError: neither is there, an id lies beyond the embedding table, or a prompt token is missing.
    """
    source = checkpoint.directory / "tokenizer.json"
    if source.exists():
        shutil.copyfile(source, path)
    else:
        path.write_text(json.dumps(assemble(checkpoint.directory), ensure_ascii=False), encoding="utf-8")
    check(path, vocabulary, needed)


def assemble(directory: Path) -> dict[str, Any]:
    """The contents of a tokenizer.json out of Qwen2's slow format."""
    vocabulary = read_json(directory / "vocab.json")
    try:
        lines = (directory / "merges.txt").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise CheckpointError(f"{directory} holds neither tokenizer.json nor merges.txt") from None
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(directory, vocabulary),
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False},
                byte_level,
            ],
        },
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocabulary,
            "merges": merges,
        },
    }


def added_tokens(directory: Path, vocabulary: dict[str, Any]) -> list[dict[str, Any]]:
    """Tokens beyond the byte pairs: of tokenizer_config.json, added_tokens.json, and the prompt's own in vocab.json."""
    added: dict[int, dict[str, Any]] = {}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    config = directory / "tokenizer_config.json"
    if config.exists():
        for token, entry in read_json(config).get("added_tokens_decoder", {}).items():
            added[int(token)] = {
                "id": int(token),
                **flags,
                **{key: entry[key] for key in (*flags, "content") if key in entry},
            }
    if (directory / "added_tokens.json").exists():
        for content, token in read_json(directory / "added_tokens.json").items():
            added.setdefault(token, {"id": token, "content": content, **flags})
    for content in dict.fromkeys((*NEEDED, *ALIGNER_NEEDED, "<|endoftext|>")):
        if content in vocabulary:
            added.setdefault(vocabulary[content], {"id": vocabulary[content], "content": content, **flags})
    return [added[token] for token in sorted(added)]


def check(path: Path, vocabulary: int, needed: tuple[str, ...] = NEEDED) -> None:
    """Load the file with the library that the runtime uses and look at its ids."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises bare Exception.
        raise CheckpointError(f"the tokenizer cannot be read: {error}") from None
    missing = [token for token in needed if tokenizer.token_to_id(token) is None]
    if missing:
        raise CheckpointError(f"the tokenizer lacks {', '.join(missing)}")
    beyond = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if beyond >= vocabulary:
        raise CheckpointError(f"the tokenizer's id {beyond} lies beyond text_config.vocab_size {vocabulary}")
