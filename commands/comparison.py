"""What was meant and what was heard, one beside the other for people: named lines, counted errors, wrong words in red
on a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


def show(console: "Console", lines: "Sequence[tuple[str, str | Text]]") -> None:
    """Print a line ``name: text`` for each; on a terminal long texts go on below their beginning."""
    from rich.table import Table

    console.print()
    if not console.is_terminal:
        width = max(len(name) for name, _ in lines) + 2
        for name, text in lines:
            console.print(f"{name + ':':<{width}}{text}", soft_wrap=True)
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in lines:
        grid.add_row(name, text)
    console.print(grid)


def marked(meant: str, heard: str) -> "Text":
    """``heard`` with the words in red that are not those of ``meant``."""
    from rich.text import Text

    from bench.wer import alignment, normalize
    from clients.captions import harmless

    expected, words = normalize(meant), heard.split()
    found = [" ".join(normalize(word)) for word in words]
    right = {j for i, j in alignment(expected, found) if i is not None and j is not None and expected[i] == found[j]}
    parts = [(harmless(word), "" if j in right else "red") for j, word in enumerate(words)]
    return Text(" ").join(Text(*part) for part in parts)


def errors(meant: str, heard: str) -> str:
    """The number of words that are wrong, missing or too many: ``4 of 38 words (10.5 %)``."""
    from bench.wer import distance, normalize

    expected = normalize(meant)
    wrong = distance(expected, normalize(heard))
    return f"{wrong} of {len(expected)} words ({100 * wrong / max(len(expected), 1):.1f} %)"
