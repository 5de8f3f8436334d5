"""How far two runs of the official code are apart, and how far 1 % on one tensor moves it: where the limits belong.

A limit below the first refuses what nobody can do better; one above the second lets an error pass.

usage: python -m tests.reference.noise CHECKPOINT MODEL_DIRECTORY (an fp32 + f32 export of it)
"""

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer

from export.checkpoint import open_checkpoint
from export.dims import read_dims
from export.sound import sound
from export.verify import parity
from export.verify.parity import Exported, decode, error
from export.verify.reference import Generated, Reference
from tests.reference.stages import DECODER_STAGES, ENCODER_STAGES, changed

Floats = NDArray[np.float32]

ENCODED_SECONDS, DECODED_SECONDS, TOKENS = 8.01, 2.0, 64


@dataclass(frozen=True)
class Forced:
    """One clip and the official greedy text of it, given to the official code whole."""

    ids: list[int]
    features: torch.Tensor
    mask: torch.Tensor
    generated: Generated

    @classmethod
    def of(cls, exported: Exported, reference: Reference) -> "Forced":
        samples = sound(DECODED_SECONDS, 10)
        features, mask = reference.features(samples)
        ids = reference.prompt(exported.tokenizer, samples, None, None)
        return cls(ids, features, mask, reference.generate(ids, features, mask, TOKENS))

    def logits(self, reference: Reference) -> Floats:
        """[TOKENS, vocabulary] in one call."""
        kind = next(reference.model.parameters()).dtype
        ids = [*self.ids, *self.generated.tokens[:-1].tolist()]
        with torch.no_grad():
            out = reference.model(
                input_ids=torch.tensor([ids]), input_features=self.features.to(kind), input_features_mask=self.mask,
                logits_to_keep=TOKENS,
            )  # fmt: skip
        return out.logits[0].float().numpy()


def apart(ours: Floats, theirs: Floats) -> float:
    """The largest error over the deviation of a position's logits."""
    return float((np.abs(ours - theirs).max(1) / theirs.std(1)).max())


def placed(name: str, layers: int) -> str:
    """The tests' second layer is the last of a deep model."""
    return re.sub(r"\.layers\.1\.", f".layers.{layers - 1}.", name)


def official_runs(forced: Forced, reference: Reference) -> Iterator[tuple[str, Floats]]:
    """The same text by the official code in other ways; the last ones change the model for good."""
    threads = torch.get_num_threads()
    yield "all positions in one call", forced.logits(reference)
    torch.set_num_threads(1)
    yield "one thread", forced.logits(reference)
    torch.set_num_threads(threads)
    reference.model.set_attn_implementation("eager")
    yield "eager attention", forced.logits(reference)
    reference.model.set_attn_implementation("sdpa")
    reference.model.double()
    yield "float64", forced.logits(reference)
    with torch.no_grad():
        for parameter in reference.model.parameters():
            parameter.copy_(parameter.half())
    yield "weights rounded to float16, float64", forced.logits(reference)


def report(exported: Exported, reference: Reference) -> bool:
    """Print both; whether every 1 % breaks its limit."""
    broken = list(encoder_stages(exported, reference))
    forced = Forced.of(exported, reference)
    stepwise = forced.generated
    placeholder = Tokenizer.from_file(str(exported.tokenizer)).token_to_id("<|audio_pad|>")
    decoder = exported.decoder(rows=512)
    audio = reference.encode(forced.features, forced.mask)
    ours = decode(decoder, forced.ids, placeholder, audio, stepwise, 1).forced
    decoder.close()
    for name in DECODER_STAGES:
        name = placed(name, reference.dims.decoder.layers)
        with changed(dict(reference.model.named_parameters(remove_duplicate=False))[name]):
            moved = apart(forced.logits(reference), ours)
        print(f"1 % on {name}: {moved:.1e} deviations of the logits", flush=True)
        broken.append(moved > parity.LOGIT_ERROR)
    best = np.sort(stepwise.logits, 1)[:, -2:]
    margins = np.sort((best[:, 1] - best[:, 0]) / stepwise.logits.std(1))
    print(
        f"margins of the best token: {' '.join(f'{margin:.3f}' for margin in margins[:6])} … {np.median(margins):.2f}"
    )
    print(f"the export to the official code, a token at a time: {apart(ours, stepwise.logits):.1e}", flush=True)
    for name, logits in official_runs(forced, reference):
        same = (logits.argmax(1) == stepwise.tokens).mean()
        print(
            f"official, {name}: to a token at a time {apart(logits, stepwise.logits):.1e}, to the export "
            f"{apart(logits, ours):.1e}; {same:.1%} the same tokens",
            flush=True,
        )
    return all(broken)


def encoder_stages(exported: Exported, reference: Reference) -> Iterator[bool]:
    """What 1 % does to the encoder's rows."""
    features, mask = reference.features(sound(ENCODED_SECONDS, 0))
    ours = exported.encode(features[0].numpy()[:, : int(mask.sum())]).embeddings
    tensors = dict(reference.model.model.named_parameters()) | dict(reference.model.model.named_buffers())
    for name in ENCODER_STAGES:
        name = placed(name, reference.dims.encoder.layers)
        with changed(tensors[name]):
            moved, cosine = error(ours, reference.encode(features, mask))
        print(f"1 % on {name}: {moved:.1e} of the RMS, cosine {cosine:.7f}", flush=True)
        yield moved > parity.ENCODER_ERROR or cosine < parity.ENCODER_COSINE


def main(arguments: Sequence[str]) -> int:
    """1 if some 1 % passes."""
    checkpoint = open_checkpoint(Path(arguments[0]))
    exported, reference = Exported(Path(arguments[1])), Reference(checkpoint, read_dims(checkpoint))
    torch.set_num_threads(2)
    try:
        return 0 if report(exported, reference) else 1
    finally:
        exported.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
