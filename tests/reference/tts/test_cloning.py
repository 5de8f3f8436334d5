"""The encoders for cloning, and a cloned voice's prompt, against the official code."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
import torch
from numpy.typing import NDArray

from engines import manifest as manifests
from tests.reference.tts import official
from tests.reference.tts.conftest import Case, make

pytestmark = pytest.mark.reference

Floats = NDArray[np.float32]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A Base checkpoint."""
    root = tmp_path_factory.mktemp("base")
    return make(root, official.TINY_TALKER, official.TINY_PREDICTOR, "base", 5)


@pytest.fixture(scope="module")
def manifest(base: Case) -> manifests.TtsManifest:
    return manifests.read_tts(base.exported)


def session(directory: Path, file: str) -> ort.InferenceSession:
    return ort.InferenceSession(directory / file, providers=["CPUExecutionProvider"])


def clip(seconds: float, seed: int) -> Floats:
    """A sound that changes: noise through a wandering resonance."""
    random = np.random.default_rng(seed)
    time = np.arange(int(24000 * seconds)) / 24000
    pitch = 2 * np.pi * np.cumsum(120 + 60 * np.sin(2 * np.pi * 0.7 * time)) / 24000
    tone = sum(np.sin(pitch * part) / part for part in range(1, 12))
    loud = 0.2 + 0.2 * np.sin(2 * np.pi * 2.3 * time)
    return (loud * (0.5 * tone + 0.3 * random.standard_normal(len(time)))).clip(-1, 1).astype(np.float32)


@pytest.mark.parametrize("frames", [1, 2, 25, 60])
def test_codes_of_a_clip_are_the_official_ones(base: Case, manifest: manifests.TtsManifest, frames: int) -> None:
    """Every codebook of every frame."""
    assert manifest.codec_encoder is not None
    audio = clip(frames * 0.08, frames)[None, : frames * 1920]
    with torch.no_grad():
        theirs = base.codec.encode(torch.from_numpy(audio), torch.ones(audio.shape, dtype=torch.int64)).audio_codes[0]
    ours = session(base.exported, manifest.codec_encoder.file).run(None, {"audio": audio})[0][0]
    assert ours.shape == (frames, manifest.codec.codebooks)
    assert ours.dtype == np.int64
    if frames >= 25:
        assert len(np.unique(theirs.numpy())) >= 20
    assert np.array_equal(ours, theirs.numpy())


def test_a_batch_of_clips_is_each_alone(base: Case, manifest: manifests.TtsManifest) -> None:
    """Causal: what follows a clip, silence or another length, does not change its codes."""
    assert manifest.codec_encoder is not None
    encoder = session(base.exported, manifest.codec_encoder.file)
    audio = np.stack((clip(1.6, 1), clip(1.6, 2)))
    both = encoder.run(None, {"audio": audio})[0]
    assert np.array_equal(both[0], encoder.run(None, {"audio": audio[:1]})[0][0])
    assert np.array_equal(both[1, :10], encoder.run(None, {"audio": audio[1:, : 10 * 1920]})[0][0])


def mels(audio: Floats, spec: manifests.SpeakerEncoder, filters: Floats) -> Floats:
    """The speaker encoder's front end, by the manifest's words."""
    padding = (spec.n_fft - spec.hop_length) // 2
    padded = np.pad(audio.astype(np.float64), padding, "reflect")
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(spec.n_fft) / spec.n_fft)
    frames = np.lib.stride_tricks.sliding_window_view(padded, spec.n_fft)[:: spec.hop_length] * window
    magnitude = np.sqrt(np.abs(np.fft.rfft(frames)) ** 2 + 1e-9)
    return np.log(np.maximum(magnitude @ filters.T, 1e-5)).astype(np.float32)


@pytest.mark.parametrize("seconds", [0.5, 3.0, 7.3])
def test_the_speaker_embedding_is_the_official_one(base: Case, manifest: manifests.TtsManifest, seconds: float) -> None:
    """From samples: front end, filters, graph."""
    spec = manifest.speaker_encoder
    assert spec is not None
    audio = clip(seconds, 3)
    theirs = base.model.extract_speaker_embedding(audio, 24000).numpy()
    rows = mels(audio, spec, np.load(base.exported / spec.filters))
    ours = session(base.exported, spec.file).run(None, {"mels": rows[None]})[0][0]
    error = float(np.abs(ours - theirs).max() / np.abs(theirs).max())
    print(f"speaker embedding of {seconds} s: largest error over the peak {error:.1e}")
    assert ours.shape == (manifest.talker.width,)
    assert error <= 1e-4


def test_other_speakers_have_other_embeddings(base: Case, manifest: manifests.TtsManifest) -> None:
    """The graph looks at its input."""
    spec = manifest.speaker_encoder
    assert spec is not None
    filters, encoder = np.load(base.exported / spec.filters), session(base.exported, spec.file)
    first, second = (encoder.run(None, {"mels": mels(clip(2.0, seed), spec, filters)[None]})[0][0] for seed in (1, 2))
    assert np.abs(first - second).max() > 1e-3


def test_a_checkpoint_without_speaker_encoder_does_not_clone(tiny: Case) -> None:
    """CustomVoice: no encoders in the directory."""
    made = manifests.read_tts(tiny.exported)
    assert made.speaker_encoder is None and made.codec_encoder is None
    assert not list(tiny.exported.glob("*encoder*"))


@pytest.mark.parametrize(
    ("layout", "frames"), [("stream", None), ("whole", None), ("stream", 12), ("stream", 150), ("whole", 12)]
)
def test_the_prompt_of_a_clone_is_the_official_one(base: Case, layout: str, frames: int | None) -> None:
    """By the embedding alone, and with the reference's text and frames: fewer frames than text, and more."""
    from tests.reference.tts.chain import Chain
    from tests.reference.tts.test_chain import TEXT, ask, official_prompt

    embedding = np.random.default_rng(0).standard_normal(96).astype(np.float32)
    asked: dict[str, Any] = ask(base, layout=layout, voice=None, language="en", instruction=None)
    chain = Chain(base.exported)
    said, codes = "That is what was said.", np.random.default_rng(1).integers(0, 64, (frames or 1, 4))
    clone = {
        "ref_spk_embedding": [torch.from_numpy(embedding)],
        "x_vector_only_mode": [frames is None],
        "icl_mode": [frames is not None],
        "ref_code": None if frames is None else [torch.from_numpy(codes)],
    }
    ids = torch.tensor([chain.ids(f"<|im_start|>assistant\n{said}<|im_end|>\n")])
    theirs = official_prompt(base, asked, voice_clone_prompt=clone, ref_ids=[ids])
    reference = None if frames is None else (said, codes)
    ours = chain.prompt(TEXT, layout=layout, language="en", embedding=embedding, reference=reference)
    chain.close()
    assert ours.rows.shape == theirs.rows.shape
    assert np.abs(ours.rows - theirs.rows).max() <= 1e-5
    # The official code's trailing text is the padding row alone where the text is used up.
    assert len(theirs.trailing) == max(1, len(ours.trailing)) or (layout == "whole" and not len(ours.trailing))
    assert not len(ours.trailing) or np.abs(ours.trailing - theirs.trailing).max() <= 1e-5


def test_the_encoder_that_training_makes_is_the_official_one(base: Case) -> None:
    """Every name of its weights, and what it makes of samples."""
    from training.tts.config import SpeakerShape
    from training.tts.speaker_encoder import LogMel, SpeakerEncoder

    sizes = {key: tuple(x) if isinstance(x, list) else x for key, x in official.TINY_SPEAKER.items()}
    ours = SpeakerEncoder(SpeakerShape(**{k: v for k, v in sizes.items() if k != "sample_rate"}), 96).eval()
    ours.load_state_dict(base.model.speaker_encoder.state_dict())
    audio = clip(4.0, 6)
    theirs = base.model.extract_speaker_embedding(audio, 24000)
    with torch.no_grad():
        found = ours(LogMel(128)(torch.from_numpy(audio)[None]))[0]
    assert (found - theirs).abs().max() <= 1e-4 * theirs.abs().max()
