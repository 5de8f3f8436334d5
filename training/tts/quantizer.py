"""Split residual vector quantisation: one semantic codebook, and the rest acoustic.

Parameter names and the formula of an entry, embedding_sum / cluster_usage, are the official ones. The acoustic books
quantise the encoder's output through a projection of their own, beside the semantic one, as the official decoder adds
both.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Quantised(NamedTuple):
    """value, semantic: [B, D, T]; codes: int64 [B, K, T]; commitment: mean squared distance, summed over the books."""

    value: Tensor
    codes: Tensor
    commitment: Tensor
    semantic: Tensor


def nearest(x: Tensor, table: Tensor) -> Tensor:
    """Give the entries of `table` [size, dim] that are nearest to x [N, dim], int64 [N]."""
    return (table.square().sum(1) - 2 * x @ table.t()).argmin(-1)


class EuclideanCodebook(nn.Module):
    """`size` entries of `dim`; an entry is embedding_sum / cluster_usage."""

    cluster_usage: Tensor
    embedding_sum: Tensor

    def __init__(self, dim: int, size: int) -> None:
        super().__init__()
        self.register_buffer("cluster_usage", torch.ones(size))
        self.register_buffer("embedding_sum", torch.randn(size, dim))

    def table(self) -> Tensor:
        return self.embedding_sum / self.cluster_usage.clamp(min=1e-5)[:, None]


class ResidualVectorQuantization(nn.Module):
    """Books one after another, each for what the ones before it leave."""

    def __init__(self, books: int, dim: int, size: int) -> None:
        super().__init__()
        made = (EuclideanCodebook(dim, size) for _ in range(books))
        self.layers = nn.ModuleList(nn.ModuleDict({"_codebook": book}) for book in made)

    @property
    def books(self) -> list[EuclideanCodebook]:
        return [layer["_codebook"] for layer in self.layers]  # type: ignore[index]  # typed as plain Modules

    def decode(self, codes: Tensor) -> Tensor:
        """Map codes [B, n, T] to their sum [B, dim, T]."""
        return sum(F.embedding(codes[:, i], b.table()) for i, b in enumerate(self.books)).transpose(1, 2)  # type: ignore[union-attr]

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Quantise z [B, dim, T] -> the value with a straight-through gradient, codes [B, n, T], commitment."""
        # It is done in float32, because a product rounded to eight bits would choose wrong entries.
        with torch.autocast(z.device.type, enabled=False):
            return self._quantise(z.float())

    def _quantise(self, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = z.transpose(1, 2).reshape(-1, z.shape[1])
        left, value, codes, loss = x.detach(), torch.zeros_like(x), [], x.new_zeros(())
        for book in self.books:
            index = nearest(left, book.table())
            entry = F.embedding(index, book.table())
            loss = loss + F.mse_loss(x - value, entry)
            value, left = value + entry, left - entry
            codes.append(index.view(z.shape[0], -1))
        through = x + (value - x).detach()
        return through.view(z.shape[0], -1, z.shape[1]).transpose(1, 2), torch.stack(codes, 1), loss


class ResidualVectorQuantizer(nn.Module):
    """Projections around the books: [B, width, T] -> [B, dim, T] -> [B, width, T]."""

    def __init__(self, books: int, dim: int, width: int, size: int) -> None:
        super().__init__()
        self.input_proj = nn.Conv1d(width, dim, 1, bias=False)
        self.output_proj = nn.Conv1d(dim, width, 1, bias=False)
        self.vq = ResidualVectorQuantization(books, dim, size)


class SplitResidualVectorQuantizer(nn.Module):
    """The whole quantiser, between codes [B, K, T] and their value [B, width, T]."""

    def __init__(self, books: int, width: int, size: int) -> None:
        super().__init__()
        self.rvq_first = ResidualVectorQuantizer(1, width // 2, width, size)
        self.rvq_rest = ResidualVectorQuantizer(books - 1, width // 2, width, size)

    def decode(self, codes: Tensor) -> Tensor:
        """Map codes int64 [B, K, T] to their value [B, width, T]."""
        first, rest = self.rvq_first, self.rvq_rest
        return first.output_proj(first.vq.decode(codes[:, :1])) + rest.output_proj(rest.vq.decode(codes[:, 1:]))

    def forward(self, z: Tensor) -> Quantised:
        """Quantise the encoder's output z [B, width, T]."""
        first, rest = self.rvq_first, self.rvq_rest
        q1, c1, l1 = first.vq(first.input_proj(z))
        semantic = first.output_proj(q1)
        q2, c2, l2 = rest.vq(rest.input_proj(z))
        return Quantised(semantic + rest.output_proj(q2), torch.cat([c1, c2], 1), l1 + l2, semantic)

    def bypass(self, z: Tensor) -> Quantised:
        """Do as `forward` does with the projections but without the books; codes are empty."""
        first, rest = self.rvq_first, self.rvq_rest
        semantic = first.output_proj(first.input_proj(z))
        codes = torch.zeros(z.shape[0], 0, z.shape[2], dtype=torch.long, device=z.device)
        return Quantised(semantic + rest.output_proj(rest.input_proj(z)), codes, z.new_zeros(()), semantic)
