"""Live against file: what the comparison prints, and that its q4_k_m model is the embedded one in other rounding."""

from pathlib import Path
from typing import Any

import numpy as np

from bench import widened
from bench.identity import measure
from engines.gguf import Decoder, Rows


def test_a_widened_decoder_is_the_same_function(asr_directory: Path, tmp_path: Path) -> None:
    """In float32 it gives the logits of the original up to rounding; in q4_k_m others, but near."""
    rows = np.random.default_rng(0).integers(0, 700, 40).tolist()

    def logits(path: Path) -> np.ndarray:
        decoder = Decoder(path, sequences=1, rows=64, threads=1, kv="f32")
        try:
            return decoder.evaluate([Rows(decoder.acquire(), 0, decoder.embed(rows), 0)])[0]
        finally:
            decoder.close()

    source = asr_directory / "decoder.gguf"
    exact = logits(source)
    distances: list[float] = []
    for kind in (widened.ALL_F32, widened.Q4_K_M):
        assert widened.write_decoder(source, tmp_path / f"{kind}.gguf", kind) % widened.BLOCK == 0
        found = logits(tmp_path / f"{kind}.gguf")
        assert found.shape == exact.shape
        distances.append(float(np.sqrt(((found - exact) ** 2).mean()) / exact.std()))
    plain, rounded = distances
    assert plain < 0.05 < rounded < 0.6, distances


def test_live_is_the_file_alone_and_with_skipped_ticks() -> None:
    """q4_k_m: nothing differs alone, whatever ticks were skipped; the crowd is counted. q8_0: nothing at all."""
    rounded: Any = measure(limit=8, sessions=8)
    assert rounded["decoder"] == "q4_k_m" and rounded["words"] > 20
    assert rounded["live"]["ticks"] > 20 and rounded["live, ticks skipped"]["skipped"] > 10
    for name in ("live", "live, ticks skipped"):
        assert rounded[name]["words_that_differ"] == rounded[name]["clips_that_differ"] == 0
    # How many rows share a call is chance: on a busy machine none may.
    assert {*rounded["live among 8"]} == {"rows_that_shared_a_call", "clips_that_differ", "words_that_differ"}
    own: Any = measure(limit=2, sessions=2, as_it_is=True)
    assert own["decoder"] == "q8_0"
    assert [own[name]["words_that_differ"] for name in own if name.startswith("live")] == [0, 0, 0]
