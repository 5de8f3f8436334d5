"""The table of goals at released dimensions: what is met, and how much is missing of the rest."""

from pathlib import Path

from bench import peer
from bench.official import promised
from bench.row import table

PROGRAM = """#!/bin/sh
case "$*" in *--stream*)
    echo "  Encoder: 26 tokens from 0.0-2.0 s (cached windows=0, partial=2.0 s, 60 ms)" >&2
    echo "  Prefill: 41 tokens (4 prefix, reused 9) (340 ms)" >&2
    echo "  Decode: 12 tokens (240 ms, 20.0 ms/token, hit max_new)" >&2
    echo "  Encoder: 52 tokens from 0.0-4.0 s (full recompute, 40 ms)" >&2
    echo "  Prefill: 67 tokens (16 prefix, reused 36) (100 ms)" >&2
    echo "  Decode: 6 tokens (120 ms, 20.0 ms/token)" >&2
    exit ;;
esac
echo "  Mel: 1100 frames (5 ms)" >&2
echo "  Encoder: 143 tokens (100 ms)" >&2
echo "  Prefill: 160 tokens (1600 ms)" >&2
exec sleep 60
"""


def test_every_goal_says_whether_it_is_met_and_what_is_missing() -> None:
    measured = {
        "encoder": "int8",
        "decoder": "q8_0",
        "times_antirez": {"encoder_ms": 9.12, "prefill_ms_per_row": 3.0, "decode_ms_per_token": 2.4, "tick_ms": 2.0},
        "encoder_ms": 142.6,
        "prefill_ms_per_row": 4.53,
        "decode_ms_per_token": 25.0,
        "tick_ms": 1478.0,
        "vnni": True,
        "resident_bytes": 1_260_000_000,
    }
    rows = promised(measured)
    assert [(row.name, row.met) for row in rows] == [
        ("encoder", True),
        ("prefill", True),
        ("decode", False),
        ("tick", False),
        ("tick of 2 s", False),
        ("resident", False),
    ]
    assert rows[0].reached == "9.12 × antirez (142.6 ms)"
    assert rows[2].reached == "2.40 × antirez (25 ms a token), 25.0 % too much"
    assert rows[3].reached == "2.00 × antirez (1478 ms), 100.0 % too much"
    assert rows[4].reached == "1478 ms, 111.1 % too much"
    assert rows[5].reached == "1.260 GB, 5.0 % too much"
    assert table(rows).count("open") == 4
    other = promised({**measured, "decoder": "q4_k_m"})
    assert (other[5].reached, other[5].goal, other[5].status) == ("1.260 GB", "", "–")
    assert other[:5] == rows[:5]
    without = promised({**measured, "vnni": False})
    assert [(row.name, row.met) for row in without[:3]] == [("encoder", True), ("prefill", True), ("decode", True)]
    assert (without[3].goal, without[3].met) == ("≤ 1600 ms", True)
    alone = promised({**measured, "times_antirez": {}})
    assert [row.name for row in alone] == ["tick of 2 s", "resident"]


def test_the_peer_is_read_from_what_it_prints(tmp_path: Path) -> None:
    """A program that prints its lines stands in for it: built by its own make, ended before it decodes for ever."""
    (tmp_path / "Makefile").write_text("blas:\n\tchmod +x qwen_asr\n")
    (tmp_path / "qwen_asr").write_text(PROGRAM)
    recording = Path(__file__).parents[1] / "data" / "recordings" / "lj.opus"
    found = peer.measure(tmp_path, tmp_path, recording, threads=1, clip=1, stream=2, tokens=12)
    assert found == {"encoder_ms": 105, "prefill_ms_per_row": 10, "decode_ms_per_token": 20, "tick_ms": 450}
