"""The tokenizer, copied or put together, gives the same ids."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from export.checkpoint import CheckpointError, open_checkpoint
from export.tokenizer import NEEDED, assemble, write_tokenizer
from tests.export.checkpoints import train_tokenizer, write_checkpoint

WHOLE = train_tokenizer()


def slow(directory: Path) -> Path:
    """The files vocab.json, merges.txt and those of added tokens, as original checkpoints have them."""
    write_checkpoint(directory)
    (directory / "tokenizer.json").unlink()
    WHOLE.model.save(str(directory))
    names = ("<|endoftext|>", *NEEDED)
    added = {str(WHOLE.token_to_id(name)): {"content": name, "special": True} for name in names}
    (directory / "tokenizer_config.json").write_text(json.dumps({"added_tokens_decoder": added}))
    return directory


@pytest.fixture(scope="module")
def assembled(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A tokenizer put together from those files."""
    return Tokenizer.from_str(json.dumps(assemble(slow(tmp_path_factory.mktemp("slow")))))


@given(text=st.text(st.characters(codec="utf-8"), max_size=60))
def test_the_assembled_tokenizer_gives_the_same_ids(assembled: Tokenizer, text: str) -> None:
    """Any composed text has the same ids. Only such text is tried, since Qwen2 normalises to NFC and the trained
    tokenizer does not."""
    import unicodedata

    composed = unicodedata.normalize("NFC", text)
    assert assembled.encode(text).ids == WHOLE.encode(composed).ids
    assert assembled.decode(assembled.encode(text).ids, skip_special_tokens=False) == composed


def test_prompt_tokens_are_single_ids(assembled: Tokenizer) -> None:
    """Special tokens are single ids between text, without spaces."""
    text = "a".join(NEEDED)
    ids = assembled.encode(text).ids
    assert [ids[at] for at in range(0, len(ids), 2)] == [WHOLE.token_to_id(name) for name in NEEDED]


def test_a_tokenizer_json_is_taken_as_it_is(tmp_path: Path) -> None:
    """The file is copied byte for byte."""
    checkpoint = open_checkpoint(write_checkpoint(tmp_path / "checkpoint"))
    write_tokenizer(checkpoint, 512, tmp_path / "out.json")
    assert (tmp_path / "out.json").read_bytes() == (tmp_path / "checkpoint/tokenizer.json").read_bytes()


def test_bad_tokenizers_are_refused(tmp_path: Path) -> None:
    """An id beyond the table, a missing special token and missing files are refused."""
    directory = slow(tmp_path / "checkpoint")
    checkpoint = open_checkpoint(directory)
    with pytest.raises(CheckpointError, match=r"beyond text_config\.vocab_size 100"):
        write_tokenizer(checkpoint, 100, tmp_path / "out.json")
    (directory / "tokenizer_config.json").unlink()
    with pytest.raises(CheckpointError, match=r"lacks <\|im_start\|>"):
        write_tokenizer(checkpoint, 512, tmp_path / "out.json")
    (directory / "merges.txt").unlink()
    with pytest.raises(CheckpointError, match=r"neither tokenizer\.json nor merges\.txt"):
        write_tokenizer(checkpoint, 512, tmp_path / "out.json")
    (directory / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match="cannot be read"):
        write_tokenizer(checkpoint, 512, tmp_path / "out.json")
