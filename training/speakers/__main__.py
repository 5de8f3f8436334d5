"""`python -m training.speakers STAGE …` makes the speaker encoder (needs torch, and onnx for the graph)."""

from pathlib import Path

import numpy as np
import torch

from training.shards import read_shards
from training.speakers.encoder import Encoder, read, write
from training.speakers.learn import Trials, equal_error_rate, prints, rough, taught, trials
from training.speakers.learn import learn as learned
from training.stages import Share, asked

# So many crops tell the ranges of the graph's bytes.
_RANGED = 100


def _rough(crops: np.ndarray, device: str) -> torch.Tensor:
    return rough(torch.from_numpy(crops).to(device), torch.Generator(device).manual_seed(7))


def _told(network: Encoder, kept: Trials, device: str) -> str:
    """How well a network parts the readers who are kept."""
    lines: list[str] = []
    for name, waves in (("clean", torch.from_numpy(kept.crops).to(device)), ("rough", _rough(kept.crops, device))):
        voices = prints(network, waves)
        rates: list[str] = []
        for corpus in ("", *sorted(set(kept.corpora))):
            mine = [i for i, one in enumerate(kept.corpora) if corpus in ("", one)]
            owners, where = [kept.owners[i] for i in mine], [kept.corpora[i] for i in mine]
            if len(set(owners)) > 1:
                rate, at = equal_error_rate(voices[mine], owners, where)
                rates.append(f"{corpus or 'all'} {rate:.2%} at {at:.2f}")
        lines.append(f"{name}: {', '.join(rates)}")
    return "\n".join(lines)


def learn(
    shards: tuple[Path, ...],
    /,
    *,
    weights: Path,
    out: Path,
    seconds: float = 420.0,
    margin: float = 0.05,
    every: float = 60.0,
    batch: int = 256,
    steps: int | None = None,
    share: Share = (0, 1),
    device: str = "cuda" if torch.cuda.is_available() else "cpu",
    processes: int = 2,
) -> None:
    """Learn from `shards`, beginning with the published `weights`. out: a folder, which gets weights in float16 every
    so many seconds; share: the clips to take of all, to try it out."""
    out.mkdir(parents=True, exist_ok=True)
    published = read(weights)
    clips = read_shards(shards, processes, share)
    kept = trials(clips, kept=True)
    print(f"{len(clips)} clips; {len(kept.crops)} crops of {len(set(kept.owners))} kept readers", flush=True)
    print(_told(published.to(device), kept, device), flush=True)
    voices = taught(clips, published, device)
    print(f"{len(voices.starts)} clips teach, of {int(voices.owners.max()) + 1} known voices", flush=True)

    def save(step: int, network: Encoder) -> None:
        print(f"step {step}\n{_told(network, kept, device)}", flush=True)
        halves = {name: v.half() if v.is_floating_point() else v for name, v in network.state_dict().items()}
        torch.save(halves, out / "new.pt")
        (out / "new.pt").rename(out / f"weights-{step}.pt")

    learned(published, voices, seconds, save, margin=margin, batch=batch, every=every, steps=steps)


def graph(weights: Path, shards: tuple[Path, ...], /, *, out: Path, seed: int = 9) -> None:
    """Write the graph that ships; crops of `shards` tell the ranges of its bytes. out:
    models/pocket-speakers/encoder.onnx."""
    crops = trials(read_shards(shards), kept=False, seed=seed).crops
    some = crops[np.random.default_rng(seed).permutation(len(crops))[:_RANGED]]
    some[::2] = _rough(some[::2], "cpu").numpy()
    write(read(weights), list(some), out)
    print(f"{out.stat().st_size} bytes")


STAGES = {"learn": learn, "graph": graph}

if __name__ == "__main__":
    asked("training.speakers", __doc__, STAGES)()
