"""Word times against those that a synthesiser plans: how far off the starts are.

The directory holds sound files and an ``index.jsonl`` of ``file text end words``: ``words`` has [index of the word in
the text, its start in seconds], ``end`` is where the speech ends (tools/timed_words.py writes both). A heard word
counts where it equals the word it is aligned with.
"""

from contextlib import closing
from difflib import SequenceMatcher
from pathlib import Path

from bench.clips import index, pcm16, samples_of
from bench.wer import distance, normalize
from clients.lag import percentile
from engines import store
from streaming.events import Transcript, Word
from streaming.model import AsrModel
from streaming.options import ListenOptions


def measure(directory: Path, model: str | None = None, *, threads: int | None = None) -> dict[str, object]:
    """Hear every clip of ``directory`` and compare the word starts.

    Raises:
        ModelNotFound, ManifestError: no usable model.
        BadIndex: a row of its ``index.jsonl`` lacks a field.
        OSError: no ``index.jsonl`` there.
    """
    rows = index(directory, "file", "text", "words")
    asr = AsrModel(store.find(model or store.default()), sessions=1, threads=threads)
    errors, timed, approximate = list[float](), 0, 0
    word_errors = words = 0
    try:
        for row in rows:
            heard = hear(asr, directory / row["file"])
            starts = {int(index): float(start) for index, start in row["words"]}
            expected = normalize(row["text"])
            said = [" ".join(normalize(word.text)) for word in heard]
            timed += len(starts)
            word_errors += distance(expected, said)
            words += len(expected)
            for block in SequenceMatcher(None, expected, said, autojunk=False).get_matching_blocks():
                for offset in range(block.size):
                    start, word = starts.get(block.a + offset), heard[block.b + offset]
                    if start is not None:
                        errors.append(word.start - start)
                        approximate += word.approximate
    finally:
        asr.close()
    sizes = [abs(error) for error in errors]
    return {
        "model": asr.name,
        "clips": len(rows),
        "wer": round(word_errors / max(words, 1), 4),
        "starts_known": timed,
        "starts_compared": len(errors),
        "approximate": approximate,
        "median_ms": round(1000 * percentile(sizes, 0.5), 1),
        "p95_ms": round(1000 * percentile(sizes, 0.95), 1),
        "worst_ms": round(1000 * max(sizes, default=0.0), 1),
        "median_signed_ms": round(1000 * percentile(errors, 0.5), 1),
    }


def hear(asr: AsrModel, path: Path) -> list[Word]:
    """The words of the finals of one recording."""
    with closing(asr.listener(ListenOptions(interim=False))) as listener:
        for part in samples_of(*pcm16(path), asr.sample_rate):
            listener.feed(part)
        listener.finish()
        events = listener.drain()
    return [word for event in events if isinstance(event, Transcript) and event.is_final for word in event.words]
