"""A released size becomes a model without torch and with little memory, whole or not at all, with graphs that compute
the same."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from numpy.typing import NDArray

from engines import manifest as manifests
from engines.integrity import load_manifest, verify
from export import fill, known
from export.checkpoint import CheckpointError
from export.progress import Progress
from tests.export.checkpoints import write_checkpoint
from tests.export.released import write_hearing_header, write_released, write_speaking_header

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a released size with 190 million weights."""
    return write_released(tmp_path_factory.mktemp("released") / "checkpoint")


@pytest.fixture(scope="module")
def exact(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its model in float32, with the whole-clip graph."""
    target = tmp_path_factory.mktemp("exact") / "model"
    fill.convert(checkpoint, target, precision="fp32", quantization="f32", clip=True)
    return target


def embeddings(model: Path, mel: Floats) -> Floats:
    """The embeddings that a model's stem and body make of chunks [N, 128, 100] as one window."""
    kind = np.float16 if manifests.read_asr(model).encoder.precision == "fp16" else np.float32

    def run(name: str, **feeds: Floats) -> Floats:
        session = ort.InferenceSession(str(model / name), providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, {key: value.astype(kind) for key, value in feeds.items()})[0])

    rows = run("stem.onnx", mel=mel)
    window = rows.reshape(1, -1, rows.shape[-1]).astype(np.float32)
    return run("body.onnx", rows=window, mask=np.ones(window.shape[:2], np.float32)).astype(np.float32)


@pytest.mark.skipif(sys.platform != "linux", reason="reads what Linux says of a process")
def test_a_released_size_needs_neither_torch_nor_memory(checkpoint: Path, tmp_path: Path) -> None:
    """A process of its own converts it, so that its imports and its memory are seen."""
    code = (
        "import sys; from pathlib import Path; from export import fill; "
        f"fill.convert(Path({str(checkpoint)!r}), Path({str(tmp_path / 'model')!r})); "
        "assert not {'torch', 'onnx', 'transformers', 'safetensors'} & sys.modules.keys(); "
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout.split()[1]) < 400_000, "kilobytes"
    verify(tmp_path / "model")
    assert isinstance(load_manifest(tmp_path / "model"), manifests.AsrManifest)


@pytest.mark.parametrize(("precision", "error"), [("fp16", 0.01), ("int8", 0.1)])
def test_every_precision_computes_the_same(
    checkpoint: Path, exact: Path, tmp_path: Path, precision: fill.Precision, error: float
) -> None:
    """Each precision has a plan of its own, and a matrix in the place of another would show here."""
    mel = np.random.default_rng(2).standard_normal((2, 128, 100)).astype(np.float32)
    fill.convert(checkpoint, tmp_path / "model", precision=precision, quantization="q8_0")
    theirs, ours = embeddings(exact, mel), embeddings(tmp_path / "model", mel)
    assert 0 < float(np.sqrt(((ours - theirs) ** 2).mean()) / theirs.std()) < error


def test_the_whole_clip_graph_is_that_of_stem_and_body(exact: Path) -> None:
    """It gives the same bits, and is written only if it is asked for."""
    mel = np.random.default_rng(3).standard_normal((1, 128, 200)).astype(np.float32)
    session = ort.InferenceSession(str(exact / "clip.onnx"), providers=["CPUExecutionProvider"])
    whole = np.asarray(session.run(None, {"mel": mel, "valid_rows": np.array([26])})[0])
    parts = embeddings(exact, mel.reshape(128, 2, 100).transpose(1, 0, 2))
    np.testing.assert_allclose(whole[:, :26], parts, atol=1e-4 * float(parts.std()))


def test_progress_is_told_and_ends_where_it_said(checkpoint: Path, tmp_path: Path) -> None:
    """Progress never falls and comes in small steps, and the estimate equals what lies on the disk in the end."""
    told: list[Progress] = []
    foreseen = fill.estimate(checkpoint, precision="int8", quantization="f16")
    fill.convert(checkpoint, tmp_path / "model", quantization="f16", report=told.append)
    done = [each.done for each in told]
    assert done == sorted(done) and done[-1] == told[-1].total == foreseen.disk
    assert max(after - before for before, after in zip(done, done[1:], strict=False)) < 40e6
    assert {each.part for each in told} == {"audio encoder", "text decoder", "checksums"}
    written = sum(path.stat().st_size for path in (tmp_path / "model").iterdir())
    assert abs(written - foreseen.disk) < 0.02 * written and not foreseen.torch


def test_whoever_ends_a_conversion_leaves_nothing(checkpoint: Path, tmp_path: Path) -> None:
    """A conversion that is ended at its first tensors or near its end leaves nothing, and a model that was there
    stays."""
    target = tmp_path / "model"
    fill.convert(checkpoint, target)
    before = {path.name: path.stat().st_mtime_ns for path in target.iterdir()}
    for part in ("audio encoder", "text decoder"):

        def stop(progress: Progress, part: str = part) -> None:
            if progress.part == part and progress.done > 1e6:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fill.convert(checkpoint, target, report=stop)
        assert {path.name: path.stat().st_mtime_ns for path in target.iterdir()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such limit there")
def test_a_disk_that_takes_no_more_is_said_in_one_sentence(checkpoint: Path, tmp_path: Path) -> None:
    """A limit of the process stands in for a full disk, so that writing fails in the middle of a file."""
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10**8, 10**8))\n"
        "from pathlib import Path; from export import fill\n"
        f"try: fill.convert(Path({str(checkpoint)!r}), Path({str(tmp_path / 'model')!r}))\n"
        "except fill.CheckpointError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot hold" in done.stdout and done.stdout.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_a_place_that_cannot_be_written_is_named(checkpoint: Path, tmp_path: Path) -> None:
    """The error names a file that stands where a directory would have to be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written to .*: choose another directory"):
        fill.convert(checkpoint, tmp_path / "file" / "model")


def test_a_release_is_known_by_its_dimensions(checkpoint: Path, tmp_path: Path) -> None:
    """Other dimensions need torch, which is said before anything is done."""
    found = fill.released(checkpoint)
    assert found is not None and (found.family, found.size) == ("qwen3-asr", "0.6b")
    other = write_checkpoint(tmp_path / "other")
    assert fill.released(other) is None
    assert fill.estimate(other, precision="int8", quantization="q8_0").torch


@pytest.mark.skipif(sys.platform == "win32", reason="a file with a hole takes its whole size there")
@pytest.mark.parametrize("precision", ["int8", "fp16", "fp32"])
def test_no_released_size_needs_torch(tmp_path: Path, precision: fill.Precision) -> None:
    """The graphs of every part are kept. For Fun-ASR-Nano, whose weights are a pickle, they are only looked up."""
    sizes = {
        "qwen3-asr 1.7b": write_hearing_header(tmp_path / "asr", output=2048, ffn=6144, aligner=False),
        "qwen3-forced-aligner 0.6b": write_hearing_header(tmp_path / "aligner", output=1024, ffn=3072, aligner=True),
        "qwen3-tts 0.6b": write_speaking_header(tmp_path / "small", width=1024, ffn=3072),
        "qwen3-tts 1.7b": write_speaking_header(tmp_path / "large", width=2048, ffn=6144),
    }
    for size, source in sizes.items():
        found = fill.released(source)
        assert found is not None and f"{found.family} {found.size}" == size
        assert not fill.estimate(source, precision=precision, quantization="q4_k_m").torch
    assert ("fun-asr-nano", precision) in known.index().values()


def test_a_weight_that_is_no_number_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    """The error names the tensor, since a model of noise would be worse."""
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for path in checkpoint.iterdir():
        os.link(path, damaged / path.name) if path.suffix != ".safetensors" else None
    data = bytearray((checkpoint / "model.safetensors").read_bytes())
    length = int.from_bytes(data[:8], "little")
    entry = json.loads(data[8 : 8 + length])["thinker.audio_tower.layers.3.fc1.weight"]
    at = 8 + length + entry["data_offsets"][0]
    data[at : at + 2] = b"\xc0\x7f"
    (damaged / "model.safetensors").write_bytes(data)
    with pytest.raises(CheckpointError, match=r"thinker\.audio_tower\.layers\.3\.fc1\.weight holds what is no number"):
        fill.convert(damaged, tmp_path / "model")


def test_what_a_killed_conversion_left_is_found(tmp_path: Path) -> None:
    """Only folders of that name are found."""
    for name in (".model.abc", ".model2.abc", "model.x"):
        (tmp_path / name).mkdir()
    assert [path.name for path in fill.leftovers(tmp_path / "model")] == [".model.abc"]
