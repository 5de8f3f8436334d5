"""The model that guesses a word's sounds from its letters, as it is trained; codec/sounds/guess.py runs it.

It takes a letter at a time: two bidirectional GRU layers read the letters, and a third GRU, which hears the chunk
before, says each letter's chunk (training/sounds/align.py). So a word costs as many steps as it has letters, whatever
it is.
"""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Shape:
    """The widths of the layers. With these the runtime's file has 1.1 MB."""

    letters: int = 64
    reading: int = 160
    chunk: int = 48
    saying: int = 224


class Guesser(nn.Module):
    """``letters`` int64 [B, L], ``chunks`` int64 [B, L] → logits [B, L, chunks]. The chunks are shifted inside, so that
    each letter hears the chunk before it."""

    def __init__(self, letters: int, chunks: int, shape: Shape = Shape(), dropout: float = 0.2) -> None:
        super().__init__()
        self.letters = nn.Embedding(letters, shape.letters)
        self.reading = nn.GRU(shape.letters, shape.reading, 2, batch_first=True, bidirectional=True, dropout=dropout)
        # The last row stands before the first letter.
        self.chunks = nn.Embedding(chunks + 1, shape.chunk)
        self.saying = nn.GRU(2 * shape.reading + shape.chunk, shape.saying, batch_first=True)
        self.out = nn.Linear(shape.saying, chunks)
        self.drop = nn.Dropout(dropout)
        self.start = chunks

    def forward(self, letters: Tensor, chunks: Tensor) -> Tensor:
        read, _ = self.reading(self.drop(self.letters(letters)))
        before = torch.cat([torch.full_like(chunks[:, :1], self.start), chunks[:, :-1]], 1)
        said, _ = self.saying(torch.cat([self.drop(read), self.drop(self.chunks(before))], 2))
        return self.out(self.drop(said))

    @torch.no_grad()
    def guess(self, letters: Tensor) -> Tensor:
        """Give the likeliest chunk of each letter, one after another: int64 [B, L]."""
        read, _ = self.reading(self.letters(letters))
        last = torch.full_like(letters[:, :1], self.start)
        state: Tensor | None = None
        found: list[Tensor] = []
        for i in range(letters.shape[1]):
            said, state = cast(
                "tuple[Tensor, Tensor]", self.saying(torch.cat([read[:, i : i + 1], self.chunks(last)], 2), state)
            )
            last = self.out(said).argmax(2)
            found.append(last)
        return torch.cat(found, 1)
