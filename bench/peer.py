"""antirez/qwen-asr (C, BLAS, weights in bfloat16) on the same checkpoint, recording and threads as ours.

Its source is built where it lies by its own ``make blas``, which wants OpenBLAS with headers. The figures are those
that ``--debug`` prints: of a clip at once, broken off before it decodes, because random weights never stop; and of a
stream in chunks of 2 s.
"""

import os
import re
import subprocess
import tempfile
import wave
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.clips import pcm16, samples_of
from engines.llama import instruction_sets

RATE = 16_000
CORES = {"AVX512": "SkylakeX", "AVX2": "Haswell"}
"""llama.cpp's name of an instruction set → OpenBLAS' name of a processor that has it; the best first."""


def measure(
    source: Path, checkpoint: Path, audio: Path, *, threads: int, clip: float, stream: float, tokens: int
) -> dict[str, float]:
    """Milliseconds of the encoder for ``clip`` seconds of ``audio``, of a prefilled row, of a token, and of a chunk of
    a stream of ``stream`` seconds with ``tokens`` each.

    Raises:
        subprocess.CalledProcessError: it cannot be built.
        RuntimeError: it did not print what is wanted.
    """
    subprocess.run(["make", "-s", "-C", str(source), "blas"], check=True, stdout=subprocess.DEVNULL)
    samples = np.concatenate(list(samples_of(*pcm16(audio), RATE)))
    with tempfile.TemporaryDirectory() as folder:
        command = [str(source / "qwen_asr"), "-d", str(checkpoint), "-t", str(threads), "--debug", "-i"]
        once = _write(samples[: round(clip * RATE)], Path(folder) / "clip.wav")
        parts = dict[str, tuple[int, float]]()
        with closing(_printed([*command, str(once)])) as phases:
            for name, count, milliseconds in phases:
                parts[name] = count, milliseconds
                if name == "Prefill":
                    break
        whole = _write(samples[: round(stream * RATE)], Path(folder) / "stream.wav")
        told = ["--stream", "--stream-max-new-tokens", str(tokens)]
        live = list(_printed([*command, str(whole), *told]))
    decoded = [(count, milliseconds) for name, count, milliseconds in live if name == "Decode"]
    if "Prefill" not in parts or not decoded:
        raise RuntimeError(f"{source} printed no figures for {checkpoint}: does it read these weights?")
    rows, prefill = parts["Prefill"]
    return {
        "encoder_ms": parts["Mel"][1] + parts["Encoder"][1],
        "prefill_ms_per_row": prefill / rows,
        "decode_ms_per_token": sum(cost for _, cost in decoded) / sum(count for count, _ in decoded),
        "tick_ms": sum(cost for *_, cost in live) / len(decoded),
    }


def _printed(command: list[str]) -> Generator[tuple[str, int, float]]:
    """Phase, rows or tokens, and milliseconds of every line of figures; who stops reading ends the program."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": command[command.index("-t") + 1]}
    # An OpenBLAS that is older than the processor takes the slowest products it has, unless it is told.
    if core := next((core for name, core in CORES.items() if name in instruction_sets()), None):
        environment.setdefault("OPENBLAS_CORETYPE", core)
    process = subprocess.Popen(
        command, env=environment, text=True, errors="replace", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if found := re.match(r"\s*(Mel|Encoder|Prefill|Decode): (\d+) \w+.*?([\d.]+) ms\b", line):
                yield found[1], int(found[2]), float(found[3])
    finally:
        process.kill()
        process.stderr.close()
        process.wait()


def _write(samples: npt.NDArray[np.float32], path: Path) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return path
