"""Codes of held-out recordings: which they are, and where they lie in the recording."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

pytest.importorskip("torch")

import torch

from tests.training.tts.shapes import CONFIG
from training.tts import __main__ as command
from training.tts.codec import Codec, load_codec, save_codec, save_decoder
from training.tts.held_out import encode_held_out, search_held_out
from training.tts.search import Search


def voice(path: Path, *, late: int = 24000) -> Path:
    """A tar of two takes; that of the first prompt in the alphabet begins with `late` samples of silence."""
    speech = 0.3 * np.sin(np.arange(12 * 1920) * 0.05)
    clips = {"b.wav": ("Zebra.", speech), "a.wav": ("Apple.", np.concatenate([np.zeros(late), speech]))}
    with tarfile.open(path, "w") as tar:

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
    return path


def small() -> Codec:
    torch.manual_seed(0)
    return Codec(CONFIG.codec).eval()


def arrays(path: Path) -> dict[str, NDArray[Any]]:
    with np.load(path) as z:
        return {name: z[name] for name in z.files}


def test_held_out_takes_are_cut_as_training_cuts_them(tmp_path: Path) -> None:
    """Of two prompts the first in the alphabet is held out; a second of silence before the speech is left out."""
    voice(tmp_path / "voice.tar")
    codec = small()
    assert encode_held_out(codec, [tmp_path / "voice.tar"], "kathleen", tmp_path / "held-out.npz") == 1
    with np.load(tmp_path / "held-out.npz") as z:
        assert z["files"].tolist() == ["a.wav"] and z["codes"].shape == (z["frames"].sum(), 3)
        assert "encoded" not in z
        assert 21000 <= z["starts"][0] < 24000 and z["frames"][0] in (12, 13, 14)
    with pytest.raises(ValueError, match="no recordings of someone"):
        encode_held_out(codec, [tmp_path / "voice.tar"], "someone", tmp_path / "other.npz")


def test_searched_codes_stand_beside_the_encoder_s(tmp_path: Path) -> None:
    """By the encoder and the search at once, or by a search from a file that exists: the same codes. A second search
    goes on from the first one's.
    """
    tar, codec = voice(tmp_path / "voice.tar"), small()
    search = Search(codec, CONFIG.codec_training, 12)
    encode_held_out(codec, [tar], "kathleen", tmp_path / "plain.npz")
    encode_held_out(codec, [tar], "kathleen", tmp_path / "at-once.npz", search)
    assert search_held_out(search, tmp_path / "plain.npz", [tar], tmp_path / "later.npz") == 1
    plain, at_once, later = (arrays(tmp_path / f"{name}.npz") for name in ("plain", "at-once", "later"))
    assert set(at_once) == set(plain) | {"encoded"}
    for name, value in at_once.items():
        np.testing.assert_array_equal(later[name], value)
        assert value.dtype == later[name].dtype
    np.testing.assert_array_equal(at_once["encoded"], plain["codes"])
    assert at_once["codes"].dtype == np.int16 and (at_once["codes"] != plain["codes"]).any()
    search_held_out(search, tmp_path / "later.npz", [tar], tmp_path / "later.npz")
    again = arrays(tmp_path / "later.npz")
    np.testing.assert_array_equal(again["encoded"], plain["codes"])


def test_a_search_says_what_is_missing(tmp_path: Path) -> None:
    tar, codec = voice(tmp_path / "voice.tar"), small()
    search, plain, out = Search(codec, CONFIG.codec_training, 1), tmp_path / "plain.npz", tmp_path / "out.npz"
    encode_held_out(codec, [tar], "kathleen", plain)
    held = arrays(plain)
    np.savez(tmp_path / "less.npz", files=held["files"], codes=held["codes"])
    with pytest.raises(ValueError, match="less.npz: lacks starts, frames"):
        search_held_out(search, tmp_path / "less.npz", [tar], out)
    np.savez(tmp_path / "other.npz", **(held | {"files": np.array(["c.wav"])}))
    with pytest.raises(ValueError, match="codes of c.wav, which is not in .*voice.tar"):
        search_held_out(search, tmp_path / "other.npz", [tar], out)
    with pytest.raises(ValueError, match="a.wav has .* from sample .*another recording or cut"):
        search_held_out(search, plain, [voice(tmp_path / "moved.tar", late=48000)], out)
    np.savez(tmp_path / "wide.npz", **(held | {"codes": held["codes"] + 32}))
    with pytest.raises(ValueError, match=r"a.wav: search: codes .*must lie in 0\.\.31"):
        search_held_out(search, tmp_path / "wide.npz", [tar], out)
    (tmp_path / "broken.npz").write_bytes(b"PK")
    for name in ("broken.npz", "none.npz"):
        with pytest.raises(ValueError, match=f"{name}: no held-out.npz"):
            search_held_out(search, tmp_path / name, [tar], out)
    assert not out.exists()


def test_the_command_searches_with_a_decoder_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`held-out --search` needs the encoder; `search` begins from a file and does not."""
    tar, codec = voice(tmp_path / "voice.tar"), small()
    save_codec(codec, tmp_path / "codec.safetensors")
    save_decoder(codec, tmp_path / "decoder.safetensors")
    rounded = load_codec(tmp_path / "codec.safetensors")
    encode_held_out(rounded, [tar], "kathleen", tmp_path / "plain.npz")

    def run(*arguments: str) -> dict[str, NDArray[Any]]:
        monkeypatch.setattr("sys.argv", ["training.tts", *arguments, "--out", str(tmp_path / "out.npz")])
        command.main()
        return arrays(tmp_path / "out.npz")

    given = ["--codec", str(tmp_path / "codec.safetensors"), "--voice", "kathleen"]
    assert "encoded" not in run("held-out", str(tar), *given)
    at_once = run("held-out", str(tar), *given, "--search", "12")
    given = ["--codec", str(tmp_path / "decoder.safetensors"), "--speech", str(tar), "--steps", "12"]
    later = run("search", str(tmp_path / "plain.npz"), *given)
    for name in ("codes", "encoded"):
        np.testing.assert_array_equal(later[name], at_once[name])
    assert (later["codes"] != later["encoded"]).any()
