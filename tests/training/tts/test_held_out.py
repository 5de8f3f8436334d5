"""Codes of held-out recordings: which they are, and where they lie in the recording."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
import soundfile

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG
from training.tts.codec import Codec
from training.tts.held_out import encode_held_out


def test_held_out_takes_are_cut_as_training_cuts_them(tmp_path: Path) -> None:
    """Of two prompts the first in the alphabet is held out; a second of silence before the speech is left out."""
    speech = 0.3 * np.sin(np.arange(12 * 1920) * 0.05)
    clips = {"b.wav": ("Zebra.", speech), "a.wav": ("Apple.", np.concatenate([np.zeros(24000), speech]))}
    with tarfile.open(tmp_path / "voice.tar", "w") as tar:

        def add(name: str, data: bytes) -> None:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))

        index = [json.dumps({"file": f, "text": t, "speaker": "kathleen"}) for f, (t, _) in clips.items()]
        add("index.jsonl", "\n".join(index).encode())
        for file, (_, wave) in clips.items():
            buffer = io.BytesIO()
            soundfile.write(buffer, wave, 24000, format="WAV")
            add(file, buffer.getvalue())
    torch.manual_seed(0)
    codec = Codec(CONFIG.codec).eval()
    assert encode_held_out(codec, [tmp_path / "voice.tar"], "kathleen", tmp_path / "held-out.npz") == 1
    with np.load(tmp_path / "held-out.npz") as z:
        assert z["files"].tolist() == ["a.wav"] and z["codes"].shape == (z["frames"].sum(), 3)
        assert 21000 <= z["starts"][0] < 24000 and z["frames"][0] in (12, 13, 14)
    with pytest.raises(ValueError, match="no recordings of someone"):
        encode_held_out(codec, [tmp_path / "voice.tar"], "someone", tmp_path / "other.npz")
