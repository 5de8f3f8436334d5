"""Committed words are counted as they are committed: a rule that is surer of itself commits fewer."""

from dataclasses import replace
from math import inf
from pathlib import Path

import pytest

from bench.committed import Commits, Committed
from bench.stability import main, recordings, sweep
from streaming.stability import Rule
from tests.clips import DATA

CLIPS = slice(3, 5)


def test_a_surer_rule_commits_fewer_words(asr_directory: Path) -> None:
    """Never, as shipped, and whatever stood in two hypotheses; the same finals each time."""

    def rules(own: Rule) -> list[Rule]:
        return [replace(own, bound=bound) for bound in (inf, own.bound, -inf)]

    never, shipped, always = (found for _, found in sweep(asr_directory, recordings(DATA)[CLIPS], rules))
    assert never.words == shipped.words == always.words > 15
    assert never.committed == never.early == never.retracted == 0
    assert 0 < shipped.committed < always.committed
    for found in (shipped, always):
        assert found.early <= found.committed - found.retracted <= found.words
    assert 0 < shipped.early_share < 1 and shipped.retracted_share < 0.1


def test_shares_of_nothing_are_nothing() -> None:
    assert Committed().early_share == Committed().retracted_share == 0
    assert Committed(4, 2, 3, 1) + Committed(1, 1, 1, 0) == Committed(5, 3, 4, 1)


def test_words_count_from_when_they_are_told() -> None:
    """Early is half a second before the final; what a final lacks was taken back, whatever mark stands behind it."""
    commits = Commits()
    commits.told(["the"], 1.0, final=False)
    commits.told(["the", "quick", "red"], 1.8, final=False)
    commits.told(["the", "quick", "brown", "fox."], 2.0, final=True)
    assert commits.found == Committed(words=4, early=1, committed=3, retracted=1)
    commits.told(["jumps"], 4.0, final=False)
    commits.told(["jumps."], 4.5, final=True)
    assert commits.found == Committed(words=5, early=2, committed=4, retracted=1)


def test_a_directory_or_shards(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "--shards" in capsys.readouterr().err
