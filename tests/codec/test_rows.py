"""Rows of codes."""

import numpy as np

from codec.rows import CodeTable, ProjectedCodeTable


def test_a_projected_row_is_the_same_alone_and_among_others() -> None:
    """Bit for bit; and it is the row of the whole matrix, but for rounding."""
    random = np.random.default_rng(1)
    table = CodeTable(random.normal(size=(9 + 3 * 8, 96)).astype(np.float16), vocabulary=9, entries=8, codebooks=4)
    weight, bias = (random.normal(size=shape).astype(np.float32) for shape in ((96, 40), (40,)))
    projected = ProjectedCodeTable(table, weight, bias)
    ids = [projected.index(0, 5), projected.index(1, 0), projected.index(3, 7)]
    rows = projected(ids)
    assert rows.shape == (3, projected.width) == (3, 40)
    assert [projected([one])[0].tobytes() for one in ids] == [row.tobytes() for row in rows]
    np.testing.assert_allclose(rows, projected.matrix()[ids], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows, table(ids) @ weight + bias, rtol=1e-4, atol=1e-4)
