"""Rows of many lengths in batches that are padded little."""

from collections.abc import Iterator, Sequence


def by_length(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Places of rows, shortest first, in groups that hold at most `most` in all when each is padded to its longest;
    a row that is longer is alone."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    while order:
        count = 1
        while count < len(order) and (count + 1) * lengths[order[count]] <= most:
            count += 1
        yield order[:count]
        order = order[count:]
