"""Writing a checkpoint's tokenizer as one tokenizer.json, whichever of Qwen2's formats the checkpoint has."""

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from export.checkpoint import Checkpoint
from export.stored import POINTER, CheckpointError, read_json, refuse_pointer, suspecting

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""The pattern by which Qwen2 splits text before byte pairs are merged (transformers,
models/qwen2/tokenization_qwen2.py)."""

NEEDED = ("<|im_start|>", "<|im_end|>", "<|audio_start|>", "<|audio_pad|>", "<|audio_end|>", "<asr_text>")
"""The special tokens of a hearing model's prompt."""

ALIGNER_NEEDED = ("<|audio_start|>", "<|audio_pad|>", "<|audio_end|>", "<timestamp>")
"""The special tokens of a ForcedAligner's prompt."""

SPEAKING_NEEDED = ("<|im_start|>", "<|im_end|>")
"""Those of a speaking model's prompt."""

OFFICIAL: Mapping[str, int] = {
    "<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645, "<|audio_start|>": 151669,
    "<|audio_end|>": 151670, "<|audio_pad|>": 151676, "<asr_text>": 151704, "<timestamp>": 151705,
}  # fmt: skip
"""The ids of the prompts' special tokens in Qwen3's vocabulary. They are for downloads that leave out
tokenizer_config.json, which names them (antirez/qwen-asr, qwen_asr.c:330-350)."""

OFFICIAL_WORDS = 151643
"""How many tokens that vocabulary has without added ones."""


MOST_TOKENS = 1 << 22
"""The ids of a tokenizer lie below: official ones have 152 thousand tokens."""


ANEW = "download the tokenizer's files from where the weights came"
"""The next step in messages about a tokenizer."""


def write_tokenizer(checkpoint: Checkpoint, vocabulary: int, path: Path, needed: tuple[str, ...] = NEEDED) -> None:
    """Write ``path`` from tokenizer.json, or from vocab.json, merges.txt and the added tokens.

    Args:
        vocabulary: how many tokens the decoder's embedding table has.
        needed: the special tokens of the prompt.

    Raises:
        CheckpointError: there is no tokenizer, an id lies beyond the embedding table, or a special token is missing.
    """
    if checkpoint.tokenizer is not None:
        path.write_text(json.dumps(checkpoint.tokenizer, ensure_ascii=False), encoding="utf-8")
    else:
        _write(checkpoint.directory, path)
    check(path, vocabulary, needed, f"the tokenizer of {checkpoint.directory}")


def check_alone(directory: Path, kind: str) -> None:
    """Check the tokenizer in ``directory`` as far as that goes without weights. ``kind``: config.json's ``model_type``.

    Raises:
        CheckpointError: as ``write_tokenizer``.
    """
    require_tokenizer(directory)
    with suspecting(directory):
        _check_alone(directory, kind)


def _check_alone(directory: Path, kind: str) -> None:
    config = read_json(directory / "config.json")
    thinker = config.get("thinker_config", config)
    if kind == "qwen3_tts":
        needed, vocabulary = SPEAKING_NEEDED, config.get("talker_config", {}).get("text_vocab_size")
    else:
        aligns = thinker.get("classify_num") is not None or "timestamp_token_id" in config
        needed = ALIGNER_NEEDED if aligns else NEEDED
        vocabulary = thinker.get("text_config", {}).get("vocab_size")
    with TemporaryDirectory(prefix="hearsay-tokenizer-") as folder:
        path = Path(folder) / "tokenizer.json"
        _write(directory, path)
        size = vocabulary if isinstance(vocabulary, int) else sys.maxsize
        check(path, size, needed, f"the tokenizer of {directory}")


def _write(directory: Path, path: Path) -> None:
    """Write ``path`` from the tokenizer's files in ``directory``."""
    source = directory / "tokenizer.json"
    if source.exists():
        shutil.copyfile(source, path)
    else:
        path.write_text(json.dumps(assemble(directory), ensure_ascii=False), encoding="utf-8")


def require_tokenizer(directory: Path) -> None:
    """Check that there is a tokenizer in ``directory``, before anything is converted.

    Raises:
        CheckpointError: there is none, or only Git LFS's pointers to one.
    """
    for name in ("tokenizer.json", "vocab.json", "merges.txt"):
        if (directory / name).exists():
            with (directory / name).open("rb") as file:
                refuse_pointer(directory / name, file.read(len(POINTER)))
    parts = [name for name in ("vocab.json", "merges.txt") if not (directory / name).exists()]
    if parts and not (directory / "tokenizer.json").exists():
        raise CheckpointError(
            f"{directory} holds no tokenizer: neither tokenizer.json nor {' and '.join(parts)}; {ANEW}"
        )


def assemble(directory: Path) -> dict[str, Any]:
    """The contents of a tokenizer.json, from vocab.json, merges.txt and the added tokens."""
    vocabulary = read_json(directory / "vocab.json")
    try:
        lines = (directory / "merges.txt").read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise CheckpointError(
            f"{directory} holds neither tokenizer.json nor merges.txt: download them from where the weights came"
        ) from None
    except UnicodeDecodeError:
        raise CheckpointError(f"{directory}/merges.txt is no UTF-8 text: {ANEW}") from None
    merges = [line.split(" ") for line in lines if line and not line.startswith("#version")]
    added = added_tokens(directory, vocabulary)
    # What is asked for is a list as long as the greatest id.
    for token in (*vocabulary.values(), *added):
        if type(token) is not int or not 0 <= token < MOST_TOKENS:
            raise CheckpointError(f"the tokenizer of {directory} has the id {str(token)[:40]}: {ANEW}")
    return contents(vocabulary, merges, added)


def contents(
    vocabulary: Mapping[str, int], merges: Sequence[Sequence[str]], added: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """The contents of a tokenizer.json. ``added`` has the tokens that are not made of byte pairs, by their ids."""
    # The tokenizers library numbers added tokens on from the vocabulary, whatever ids they state, so gaps are filled.
    gaps = range(max(vocabulary.values(), default=-1) + 1, max(added, default=-1))
    whole = {token: added_token(token, f"<|unused_{token}|>") for token in gaps} | dict(added)
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [whole[token] for token in sorted(whole)],
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
            "vocab": dict(vocabulary),
            "merges": [list(merge) for merge in merges],
        },
    }


def added_token(token: int, content: str, *, special: bool = True) -> dict[str, Any]:
    """The entry in tokenizer.json of a token that is not made of byte pairs."""
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"id": token, **flags, "special": special, "content": content}


def added_tokens(directory: Path, vocabulary: Mapping[str, int]) -> dict[int, dict[str, Any]]:
    """The tokens that are not made of byte pairs, by their ids: those that tokenizer_config.json and added_tokens.json
    name, and the prompt's special tokens in vocab.json."""
    added: dict[int, dict[str, Any]] = {}
    config = directory / "tokenizer_config.json"
    if config.exists():
        for token, entry in read_json(config).get("added_tokens_decoder", {}).items():
            plain = added_token(int(token), "")
            added[int(token)] = plain | {key: entry[key] for key in plain if key in entry}
    if (directory / "added_tokens.json").exists():
        for content, token in read_json(directory / "added_tokens.json").items():
            added.setdefault(token, added_token(token, content))
    if not added and len(vocabulary) == OFFICIAL_WORDS:
        added |= {token: added_token(token, content) for content, token in OFFICIAL.items()}
    for content in dict.fromkeys((*NEEDED, *ALIGNER_NEEDED, "<|endoftext|>")):
        if content in vocabulary:
            added.setdefault(vocabulary[content], added_token(vocabulary[content], content))
    return added


def check(path: Path, vocabulary: int, needed: tuple[str, ...], source: str) -> None:
    """Load the tokenizer ``path`` with the library that the runtime uses, and check its ids. Messages call it
    ``source``.

    Raises:
        CheckpointError: it cannot be loaded, lacks a token of ``needed``, or has an id beyond ``vocabulary``.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # The library raises bare Exception.
        raise CheckpointError(f"{source} cannot be read ({error}): {ANEW}") from None
    missing = [token for token in needed if tokenizer.token_to_id(token) is None]
    if missing:
        raise CheckpointError(f"{source} lacks {', '.join(missing)}: it is another model's; {ANEW}")
    beyond = max(tokenizer.get_vocab(with_added_tokens=True).values())
    if beyond >= vocabulary:
        raise CheckpointError(
            f"{source} has id {beyond}, beyond text_config.vocab_size {vocabulary}: it is another model's; {ANEW}"
        )
