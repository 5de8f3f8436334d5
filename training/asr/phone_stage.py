"""The stage `phones`: how words sound, which ones there are, and a phone head where the weights have none; all for
finals to choose by."""

from collections.abc import Sequence
from pathlib import Path

import torch

from training.asr.checkpoint import PRONUNCIATION, begin_with, save_weights
from training.asr.config import Config
from training.asr.lexicon import LEAST, lexicon
from training.asr.material import split, word_counts
from training.asr.model import PocketASR
from training.asr.phone_head import fit, hear, loss_of
from training.asr.phones import Phones
from training.asr.pronunciation import known, learn, save
from training.shards import read_shards


def add_phones(
    config: Config, weights: Path, shards: Sequence[Path], text: Path, root: Path, out: Path, passes: int,
    processes: int, device: str,
) -> None:  # fmt: skip
    """Write `out`: the weights with a phone head; pronunciations of the words of `text` and the shards, and which of
    them finals should know. A head of as many phones that the weights hold is kept; else one is fitted to the
    recordings that training does not hold out."""
    held_out, clips = split(read_shards(shards, processes), config.batches.dev_every)
    counts = word_counts(text, clips)
    phones = Phones(root, counts)
    net, (unseen, running) = learn(known(phones, counts), counts, len(phones), 5 * passes)
    print(f"pronunciation: {unseen:.1%} of words not learnt from, {running:.1%} of running words")
    words = lexicon(counts)
    print(f"lexicon: {len(words)} words that occur at least {LEAST} times")
    save(net, phones.names, words, out / PRONUNCIATION)
    model = PocketASR(config.shape, config.regularisation, len(phones)).eval()
    if begin_with(model, weights):
        place = torch.device(device)
        model.to(place)
        fit(model, hear(model.thinker.audio_tower, clips, phones, place), passes)
        heard = hear(model.thinker.audio_tower, held_out, phones, place)
        if heard:
            print(f"phones, held out: {loss_of(model, heard):.3f} nats")
    save_weights(model.state_dict(), out)
