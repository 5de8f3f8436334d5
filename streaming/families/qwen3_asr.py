"""Qwen3-ASR, and the models of the same parts: log-mel frames, windows that are frozen, text in its conversation."""

from pathlib import Path

from tokenizers import Tokenizer

from engines.manifest import AsrManifest
from streaming.encoder import AudioEncoder
from streaming.mel import LogMel, load_filters
from streaming.prompt import Prompt
from streaming.windows import Windows
from streaming.work import Work


class Family:
    """As ``streaming.families.Family``."""

    def __init__(self, directory: Path, manifest: AsrManifest, tokenizer: Tokenizer) -> None:
        self.prompt = Prompt(tokenizer, leading_space=manifest.tokenizer.leading_space)
        self.log_mel = LogMel(manifest.mel, load_filters(directory / manifest.mel.filters))

    def rows(self, encoded: int) -> int:
        """All of them."""
        return encoded

    def clip(self, encoder: AudioEncoder, work: Work, mel_maximum: float | None = None) -> Windows:
        """Its windows are closed one by one."""
        return Windows(encoder, self.log_mel, work, mel_maximum)
