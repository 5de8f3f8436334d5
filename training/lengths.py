"""Rows of many lengths are put into batches that are padded little."""

from collections.abc import Iterator, Sequence


def by_length(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Give the places of rows, shortest first, in groups whose size times their longest length is at most `most`. A row
    that is longer than that is alone."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    while order:
        count = 1
        while count < len(order) and (count + 1) * lengths[order[count]] <= most:
            count += 1
        yield order[:count]
        order = order[count:]
