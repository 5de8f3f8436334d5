"""The runtime compared with numbers of the official code, without torch: features, encoder, prompts and decoder.

``tests/golden/asr`` holds an exported random-weight model and what transformers made of the same weights and sounds
(tests/reference/golden.py wrote both).
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray
from tokenizers import Tokenizer

from audio.mel_filters import mel_filters
from engines import manifest as manifests
from engines.files import load_tokenizer
from engines.gguf import Decoder, Rows
from engines.lane import Lane
from engines.manifest import AsrManifest
from engines.onnx import Graph
from export.sound import sound
from streaming.encoder import AudioEncoder
from streaming.mel import LogMel, load_filters, official_length
from streaming.prompt import Prompt
from tests.golden_models import GOLDEN, longer_chunks

OFFICIAL = np.load(GOLDEN / "official.npz")
CLIPS = ((0.3, 0), (2.0, 1), (9.7, 2))

Floats = NDArray[np.float32]


def features(manifest: AsrManifest, number: int) -> Floats:
    """The runtime's features of a golden clip, padded as the official extractor pads."""
    mel = LogMel(manifest.mel, load_filters(GOLDEN / "fp32" / manifest.mel.filters))
    samples = sound(*CLIPS[number])
    return mel.clip(np.pad(samples, (0, official_length(len(samples)) - len(samples))))


@pytest.fixture(scope="module")
def manifest() -> AsrManifest:
    """The manifest of the float32 export."""
    return manifests.read_asr(GOLDEN / "fp32")


def encode(directory: Path, number: int) -> Floats:
    """The embeddings of a golden clip by the runtime's encoder."""
    manifest = manifests.read_asr(directory)
    frames, window = manifest.encoder.chunk_frames, manifest.encoder.window_rows
    spec, lane = manifest.encoder, Lane("golden")
    try:
        graphs = [Graph(directory / name, threads=1, provider="cpu") for name in (spec.stem, spec.body)]
        encoder = AudioEncoder(spec, graphs[0], graphs[1], manifest.mel.bins)
        mel = features(manifest, number)
        chunks = [mel[:, at : at + frames] for at in range(0, mel.shape[1], frames)]
        rows = np.concatenate(lane.run(encoder.stems(chunks)))
        parts = (rows[at : at + window] for at in range(0, len(rows), window))
        return np.concatenate([lane.run(encoder.body(part)).embeddings for part in parts])
    finally:
        lane.close()


def test_the_manifest_holds() -> None:
    """Every file is there with its checksum."""
    import hashlib

    for name in ("fp32", "int8"):
        for file, entry in manifests.read_asr(GOLDEN / name).files.items():
            data = (GOLDEN / name / file).read_bytes()
            assert (len(data), hashlib.sha256(data).hexdigest()) == (entry.bytes, entry.sha256)


def test_filters() -> None:
    """The exported filters are those that the exporter computes."""
    np.testing.assert_array_equal(np.load(GOLDEN / "fp32" / "mel.npy"), mel_filters(128))


@pytest.mark.parametrize("number", range(3))
def test_features(manifest: AsrManifest, number: int) -> None:
    """Features are those of the official extractor, whose transform is in float32."""
    ours = features(manifest, number)[::4]
    assert ours.shape == OFFICIAL[f"features{number}"].shape
    assert np.abs(ours - OFFICIAL[f"features{number}"]).max() < 1e-4


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize(("name", "limit", "cosine"), [("fp32", 1e-3, 0.999999), ("int8", 0.3, 0.995)])
def test_encoder(number: int, name: str, limit: float, cosine: float) -> None:
    """Embeddings are those of the official windowed encoder, exactly in float32 and nearly in 8 bits."""
    ours, theirs = encode(GOLDEN / name, number), OFFICIAL[f"embeddings{number}"]
    assert ours.shape == theirs.shape
    assert np.abs(ours - theirs).max() / np.sqrt((theirs**2).mean()) < limit
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > cosine


@pytest.mark.parametrize("frames", [200, 400])
def test_encoder_of_longer_chunks(frames: int, tmp_path: Path) -> None:
    """In 8 bits, two windows with chunks of 2 s or 4 s give nearly the official encoder's rows."""
    ours = encode(longer_chunks(tmp_path, frames), 2)
    theirs = OFFICIAL[f"embeddings2_{frames}"]
    assert ours.shape == theirs.shape == (-(-970 // 8), 64)
    assert np.abs(ours - theirs).max() / np.sqrt((theirs**2).mean()) < 0.3
    cosines = (ours * theirs).sum(1) / np.linalg.norm(ours, axis=1) / np.linalg.norm(theirs, axis=1)
    assert cosines.min() > 0.995
    # And no other chunk length's.
    other = OFFICIAL[f"embeddings2_{600 - frames}"]
    assert np.abs(other - theirs).max() / np.sqrt((theirs**2).mean()) > 1


@pytest.mark.parametrize("name", ["fp32", "int8"])
def test_the_whole_clip_graph_gives_the_same(name: str) -> None:
    """Two windows with a tail come out of one call as they do one by one."""
    directory = GOLDEN / name
    mel = features(manifests.read_asr(directory), 2)
    padded = np.pad(mel, ((0, 0), (0, -mel.shape[1] % 100)))[None]
    rows = len(OFFICIAL["embeddings2"])
    graph = Graph(directory / "clip.onnx", threads=1, provider="cpu")
    whole = graph.run({"mel": padded, "valid_rows": np.array([rows])})[0]
    assert whole.shape == (1, padded.shape[2] // 100 * 13, 64)
    np.testing.assert_array_equal(whole[0, :rows], encode(directory, 2))


@pytest.mark.parametrize("name", ["fp32", "int8"])
def test_a_window_is_bit_equal_alone_padded_and_beside_a_loud_one(name: str) -> None:
    """No scale of 8-bit rows depends on another window or on padding."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    body = ort.InferenceSession(str(GOLDEN / name / "body.onnx"), options, providers=["CPUExecutionProvider"])
    rows = np.random.default_rng(0).standard_normal((1, 104, 48)).astype(np.float32)
    for count in (13, 52, 91):
        part = rows[:, :count]
        alone = body.run(None, {"rows": part, "mask": np.ones((1, count), np.float32)})[0]
        mask = (np.arange(104) < count).astype(np.float32)[None]
        filled = np.concatenate([part, 5 * rows[:, count:]], 1)
        assert np.array_equal(body.run(None, {"rows": filled, "mask": mask})[0][:, :count], alone)
        pair = np.concatenate([part, 5 * part])
        assert np.array_equal(body.run(None, {"rows": pair, "mask": np.ones((2, count), np.float32)})[0][:1], alone)


def test_prompts(manifest: AsrManifest) -> None:
    """The ids of prompts are the official template's, with and without language and context."""
    tokenizer = GOLDEN / "fp32" / manifest.tokenizer.file
    prompt = Prompt(load_tokenizer(tokenizer), leading_space=False)
    placeholder = Tokenizer.from_file(str(tokenizer)).token_to_id("<|audio_pad|>")
    cases = json.loads((GOLDEN / "prompts.json").read_text())
    assert len(cases) == 4
    for case in cases:
        ours = [*prompt.head(case["keyterms"]), *[placeholder] * 13, *prompt.suffix(case["language"])]
        assert ours == case["ids"]


@pytest.fixture(scope="module")
def decoder(manifest: AsrManifest) -> Iterator[Decoder]:
    """The decoder in float32, with a KV cache in float32."""
    loaded = Decoder(GOLDEN / "fp32" / manifest.decoder.file, sequences=1, rows=512, threads=1, kv="f32")
    yield loaded
    loaded.close()


@pytest.mark.parametrize("number", range(3))
def test_greedy_tokens(decoder: Decoder, manifest: AsrManifest, number: int) -> None:
    """The 64 tokens that the runtime's own parts decode from samples are those of the official model."""
    ids, tokens = OFFICIAL[f"prompt{number}"], OFFICIAL[f"tokens{number}"].tolist()
    assert len(set(tokens)) >= 20
    placeholder = Tokenizer.from_file(str(GOLDEN / "fp32" / manifest.tokenizer.file)).token_to_id("<|audio_pad|>")
    rows = decoder.embed(ids.tolist())
    rows[ids == placeholder] = encode(GOLDEN / "fp32", number)
    sequence = decoder.acquire()
    try:
        logits = decoder.evaluate([Rows(sequence, 0, rows, len(rows) - 1)])[0][-1]
        said: list[int] = []
        for step in range(len(tokens)):
            if step % 16 == 0:
                official = OFFICIAL[f"logits{number}"][step // 16]
                assert np.abs(logits - official).max() < 2e-3 * official.std()
            said.append(int(logits.argmax()))
            logits = decoder.evaluate([Rows(sequence, len(rows) + step, decoder.embed(said[-1:]), 0)])[0][-1]
    finally:
        decoder.release(sequence)
    assert said == tokens


def test_other_audio_gives_other_text() -> None:
    """Other audio gives other tokens, so the golden ones are not constant."""
    assert len({tuple(OFFICIAL[f"tokens{number}"].tolist()) for number in range(3)}) == 3
