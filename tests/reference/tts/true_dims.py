"""Speaking exports at Qwen3-TTS-12Hz-0.6B's true dimensions: part of `make export-check`. Minutes, 12 GB of memory.

Random weights of the official classes. The codec decoder: several cuttings against the official decoder over 300
frames, the rows it keeps, then milliseconds a frame. Talker and predictor: 50 greedy frames of the f32 GGUFs against
the official code; first divergence, teacher-forced agreement and milliseconds a step of the rounded ones.

usage: python -m tests.reference.tts.true_dims [--codec-only | --talker-only] [--keep DIR] [--threads N]
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import torch

from engines import manifest as manifests
from engines.gguf import Decoder, Rows
from export.tts import api
from export.tts.checkpoint import CODEC_TYPE, open_part, open_tts
from export.tts.codec_dims import CodecDims, read_codec_dims
from export.tts.dims import read_tts_dims
from export.tts.directory import write_codec
from export.tts.state import states
from export.tts.talker import PREDICTOR, TALKER, write_predictor, write_tables, write_talker
from tests.reference.tts import official
from tests.reference.tts.chain import Chain, Codes, Prompt
from tests.reference.tts.stepper import Stepper

TEXT = "The king is singing: 27 songs, one by one, until the morning."
TALKER_06B = {
    "hidden_size": 1024, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 3072, "text_hidden_size": 2048, "rope_theta": 1000000, "max_position_embeddings": 32768,
}  # fmt: skip
PREDICTOR_06B = {
    "hidden_size": 1024, "num_hidden_layers": 5, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
    "intermediate_size": 3072, "rope_theta": 1000000, "max_position_embeddings": 65536,
}  # fmt: skip
FRAMES, OFFICIAL_ERROR, CHUNK_ERROR, KEPT_ERROR = 300, 4.2e-4, 1e-4, 1e-6
SPOKEN, DISTINCT = 50, 20
"""Greedy frames, and how many codes of the first codebook must be distinct for equality to say something."""
ROUNDED = ("f16", "q8_0", "q6_k", "q4_k_m")
CUTS = {
    "1": [(1, 0)],
    "4": [(4, 0)],
    "12": [(12, 0)],
    "300": [(300, 0)],
    "odd, padded": [(3, 5), (64, 1), (1, 9), (17, 0)],
}
TIMED = (1, 2, 4, 8, 12)


def check_codec(root: Path, threads: int) -> bool:
    """The parity of the codec decoder; leaves its directory in ``root / "codec"``."""
    model = official.codec_model(official.TRUE_CODEC)
    checkpoint = official.save_codec(model, root / "speech_tokenizer")
    codes = np.random.default_rng(0).integers(0, 2048, (FRAMES, 16))
    with torch.no_grad():
        theirs = model.decoder(torch.from_numpy(codes.T[None]))[0, 0].numpy()
    level = float(np.sqrt((theirs**2).mean()))
    passed = level >= 0.05
    out = root / "codec"
    out.mkdir(exist_ok=True)
    opened = open_part(checkpoint, CODEC_TYPE)
    dims = read_codec_dims(opened)
    write_codec(opened, dims, out, "fp32")
    stepper = Stepper(out, describe(dims), threads)
    once, last = stepper.decode(codes, [(FRAMES, 0)])
    states_by_name = {each.input: value[0] for each, value in zip(stepper.codec.states, last, strict=True)}
    kept = 0.0
    for name, tensor in official.kept_rows(model, torch.from_numpy(codes.T[None])).items():
        rows = tensor.numpy()
        kept = max(kept, float(np.abs(states_by_name[name] - rows[:, -71:]).max() / np.abs(rows).max()))
    passed &= kept <= KEPT_ERROR
    print(f"keys and values kept after {FRAMES} frames: {kept:.1e} of their peak from the official ones")
    for name, cuts in CUTS.items():
        wave, _ = stepper.decode(codes, cuts)
        error, seam = float(np.abs(wave - theirs).max()), float(np.abs(wave - once).max()) / level
        passed &= error <= OFFICIAL_ERROR and seam <= CHUNK_ERROR
        facts = f"RMS {level:.3f}  to the official decoder {error:.1e}  to one call {seam:.1e} of the RMS"
        print(f"calls of {name:<12} {facts}")
    for frames in TIMED:
        state, times = stepper.start(), []
        for place in range(0, 10 * frames, frames):
            began = time.perf_counter()
            _, _, state = stepper.call(codes[None, place : place + frames], state)
            times.append((time.perf_counter() - began) / frames * 1e3)
        print(f"codec, {frames:>2} frames a call: median {np.median(times):.1f}, least {min(times):.1f} ms a frame")
    return passed


def describe(dims: CodecDims) -> manifests.CodecDecoder:
    """The manifest's part for a codec directory that has none."""
    kept = tuple(manifests.CodecState(each.name, each.next, each.shape) for each in states(dims))
    return manifests.CodecDecoder("codec_decoder.onnx", "fp32", 16, 2048, 1920, 24000, kept)


def time_stack(path: Path, rows: int, threads: int) -> str:
    """Milliseconds of a step after ``rows`` positions."""
    decoder = Decoder(path, sequences=1, rows=256, threads=threads, hidden=True)
    sequence = decoder.acquire()
    random = np.random.default_rng(0)
    begin = random.standard_normal((rows, decoder.width)).astype(np.float32)
    decoder.outputs([Rows(sequence, 0, begin, rows - 1)])
    times = []
    for step in range(20):
        row = random.standard_normal((1, decoder.width)).astype(np.float32)
        began = time.perf_counter()
        decoder.outputs([Rows(sequence, rows + step, row, 0)])
        times.append((time.perf_counter() - began) * 1e3)
    decoder.close()
    return f"median {np.median(times):.1f}, least {min(times):.1f} ms"


def check_talker(root: Path, threads: int) -> bool:
    """Greedy frames of talker and predictor; then the rounded formats, how near and how fast."""
    config = official.tts_config(TALKER_06B, PREDICTOR_06B, official.TRUE_CODEC, "custom_voice", "0b6")
    model = official.tts_model(config)
    checkpoint = official.save_tts(model, official.codec_model(official.TRUE_CODEC), root / "checkpoint")
    out = api.run(checkpoint, root / "model", codec="fp32", decoder="f32")
    chain = Chain(out, threads)
    prompt = chain.prompt(TEXT, voice="ryan", language="en")
    ids = torch.tensor([chain.ids(f"<|im_start|>assistant\n{TEXT}<|im_end|>\n<|im_start|>assistant\n")])
    with torch.no_grad():
        generated, _ = model.generate(
            input_ids=[ids], languages=["english"], speakers=["ryan"], do_sample=False, subtalker_dosample=False,
            max_new_tokens=SPOKEN + 1,
        )  # fmt: skip
    theirs = generated[0].numpy()[:SPOKEN]
    del model
    ours, close = chain.frames(prompt, SPOKEN)
    chain.close()
    same, distinct = bool(np.array_equal(ours, theirs)), len(set(theirs[:, 0].tolist()))
    verdict = f"{'identical' if same else 'NOT identical'}; {distinct} distinct first codes, {close.sum()} near ties"
    print(f"{SPOKEN} greedy frames of {theirs.shape[1]} codes, f32: {verdict}", flush=True)
    opened = open_tts(checkpoint)
    dims = read_tts_dims(opened)
    write_tables(opened.model, dims, out, half=True)
    for quantization in ROUNDED:
        write_talker(opened.model, dims, out, quantization, name="rounded")
        write_predictor(opened.model, dims, out, quantization, name="rounded")
        print(f"{quantization}: {rounded(out, prompt, theirs, threads)}", flush=True)
        print(f"talker step, {quantization}: {time_stack(out / TALKER, 40, threads)}")
        print(f"predictor step (15 a frame, heads apart), {quantization}: {time_stack(out / PREDICTOR, 2, threads)}")
    return same and distinct >= DISTINCT


def rounded(out: Path, prompt: Prompt, theirs: Codes, threads: int) -> str:
    """How near a model directory's frames are to the official ones."""
    chain = Chain(out, threads)
    try:
        ours, _ = chain.frames(prompt, len(theirs))
        agreed = (chain.frames(prompt, len(theirs), forced=theirs)[0] == theirs).mean(0)
    finally:
        chain.close()
    differs = np.flatnonzero((ours != theirs).any(1))
    first = int(differs[0]) if len(differs) else len(theirs)
    agreement = f"teacher-forced agreement {agreed.mean():.3f} of all codes, {agreed[0]:.2f} of the talker's"
    return f"first divergence at frame {first} of {len(theirs)}, {agreement}"


def main() -> int:
    """Run the parts; 1 if a limit is broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    part = parser.add_mutually_exclusive_group()
    part.add_argument("--codec-only", action="store_true")
    part.add_argument("--talker-only", action="store_true")
    parser.add_argument("--keep", type=Path, help="work here and leave everything")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    with nullcontext(arguments.keep) if arguments.keep else tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        root.mkdir(exist_ok=True)
        parts: list[Callable[[], bool]] = []
        if not arguments.talker_only:
            parts.append(lambda: check_codec(root, arguments.threads))
        if not arguments.codec_only:
            parts.append(lambda: check_talker(root, arguments.threads))
        passed = all([part() for part in parts])
    print("every limit is kept" if passed else "LIMITS ARE BROKEN")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
