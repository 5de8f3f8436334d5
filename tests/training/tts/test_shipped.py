"""What is shipped can be trained on."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("gguf")

import gguf
import torch

from codec.clone import VoiceEncoder
from codec.decoder import CodecDecoder
from engines import manifest as manifests
from engines.lane import Lane
from engines.onnx import Graph
from export.tts.checkpoint import open_tts
from export.tts.dims import read_tts_dims
from export.tts.talker import write_predictor, write_tables, write_talker
from training.shards import decode
from training.tts.__main__ import CONFIG, checkpoint, take_shipped
from training.tts.checkpoint import load_talker
from training.tts.codec import load_codec
from training.tts.config import RATE, CodecShape
from training.tts.shipped import shipped_decoder

RECORDING = Path(__file__).parents[2] / "data" / "recordings" / "lj.opus"
SHIPPED = Path(__file__).parents[3] / "models" / "pocket-tts-en"


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("start")
    take_shipped(SHIPPED, out=folder)
    return folder


def weights(path: Path) -> dict[str, tuple[str, bytes]]:
    """Give the type and the bytes of each tensor; what stands before them may have changed its order."""
    return {one.name: (one.tensor_type.name, one.data.tobytes()) for one in gguf.GGUFReader(path).tensors}


@torch.inference_mode()
def test_the_decoder_sounds_as_what_ships(start: Path) -> None:
    decoder = load_codec(start / "codec").decoder
    spec = manifests.read_tts(SHIPPED).codec
    runtime = CodecDecoder(spec, Graph(SHIPPED / spec.file, threads=1, provider="cpu"))
    codes = np.load(SHIPPED / "held-out.npz")["codes"][:40].astype(np.int64)
    ours, shipped = decoder(torch.from_numpy(codes.T[None]))[0, 0].numpy(), runtime.step(codes, runtime.start())[0]
    # The weights were rounded to float16 on the way.
    assert np.abs(ours - shipped).max() < 0.05 * shipped.std() > 0


def test_talker_and_predictor_are_exported_as_they_ship(start: Path, tmp_path: Path) -> None:
    """Every weight comes back to the byte, but for the rows of text, of which only the product with their projection
    shipped."""
    shutil.copy(SHIPPED / "tokenizer.json", tmp_path)
    again = {"codec": start / "codec", "talker": start / "talker", "tokenizer": tmp_path}
    checkpoint(**again, out=tmp_path / "checkpoint")
    found = open_tts(tmp_path / "checkpoint")
    dims = read_tts_dims(found)
    write_talker(found.model, dims, tmp_path, "q8_0", name=CONFIG.name)
    write_predictor(found.model, dims, tmp_path, "q8_0", name=CONFIG.name)
    write_tables(found.model, dims, tmp_path, half=True)
    for name in ("talker.gguf", "predictor.gguf"):
        assert weights(tmp_path / name) == weights(SHIPPED / name) != {}, name
    for name in ("code_rows.npy", *(f"predictor_{n}.npy" for n in ("heads", "bias"))):
        assert (tmp_path / name).read_bytes() == (SHIPPED / name).read_bytes(), name
    rows, made = (np.load(folder / "text_rows.npy") for folder in (SHIPPED, tmp_path))
    # They differ by three steps of float16 at most.
    assert np.abs(made - rows).max() <= 3 * np.spacing(np.abs(rows).max())


@torch.inference_mode()
def test_a_voice_is_heard_as_by_what_ships(start: Path) -> None:
    heard = decode(RECORDING.read_bytes(), RATE, "float32")[: 5 * RATE]
    ours = load_talker(start / "talker", CONFIG).eval().voices(torch.from_numpy(heard[None]), 0.0)[0].numpy()
    with closing(Lane("encoders")) as lane:
        encoder = VoiceEncoder(manifests.read_tts(SHIPPED), SHIPPED, lane, threads=1, provider="cpu")
        theirs = encoder.embedding(heard, RATE)
    assert np.abs(ours - theirs).max() < 1e-3 * np.abs(theirs).max() > 0


def test_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"codebooks.table is not \[8192, 128\]"):
        shipped_decoder(SHIPPED, CodecShape(codebook_dim=256))
