"""Counters of sessions are summed field by field."""

from dataclasses import asdict, fields

from codec.work import Work as Said
from streaming.work import Work as Heard


def test_every_field_is_summed() -> None:
    """Of both rooms' counters; the one that is added stays as it is."""
    for kind in (Heard, Said):
        names = [field.name for field in fields(kind)]
        assert len(names) > 10
        total, other = kind(), kind()
        for i, name in enumerate(names):
            setattr(total, name, i)
            setattr(other, name, 100.0)
        total.add(other)
        assert asdict(total) == {name: i + 100 for i, name in enumerate(names)}
        assert set(asdict(other).values()) == {100.0}
