"""The table of goals at released dimensions: what is met, and how much is missing of the rest."""

from bench.official import promised
from bench.row import table


def test_every_goal_says_whether_it_is_met_and_what_is_missing() -> None:
    measured = {
        "encoder": "int8",
        "decoder": "q8_0",
        "times_antirez": {"encoder_ms": 9.12, "prefill_ms_per_row": 3.0, "decode_ms_per_token": 2.4, "tick_ms": 2.0},
        "encoder_ms": 142.6,
        "prefill_ms_per_row": 4.53,
        "decode_ms_per_token": 25.0,
        "tick_ms": 1478.0,
        "resident_bytes": 1_260_000_000,
    }
    rows = promised(measured)
    assert [(row.name, row.met) for row in rows] == [
        ("encoder", True),
        ("prefill", True),
        ("decode", False),
        ("tick", False),
        ("resident", False),
    ]
    assert rows[0].reached == "9.12 × antirez (142.6 ms)"
    assert rows[2].reached == "2.40 × antirez (25 ms a token), 25.0 % too much"
    assert rows[3].reached == "2.00 × antirez (1478 ms), 100.0 % too much"
    assert rows[4].reached == "1.260 GB, 5.0 % too much"
    assert table(rows).count("open") == 3
    other = promised({**measured, "decoder": "q4_k_m"})
    assert (other[4].reached, other[4].goal, other[4].status) == ("1.260 GB", "", "–")
    assert other[:4] == rows[:4]
