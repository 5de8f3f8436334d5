"""What was heard of a recording in Deepgram's pre-recorded shape: channels, words, paragraphs, utterances.

Field names follow the types of deepgram-sdk 7 (``ListenV1Response``). Keys of ours: ``approximate`` on a word,
``warnings`` in the metadata.
"""

from collections.abc import Iterator, Sequence
from typing import Final
from uuid import uuid4

import msgspec

from daemon.deepgram.listen_messages import ListenWord, ModelInfo, bare, word
from daemon.deepgram.recorded_query import RecordedRequest
from streaming.events import Transcript

_ENDS: Final = (".", "?", "!", "…", "。", "？", "！")
"""What the last word of a sentence ends with."""
_PAUSE_SECONDS: Final = 1.5
"""Seconds without a word between two sentences that end a paragraph."""
_MOST_SENTENCES: Final = 5
"""Sentences that a paragraph has at most."""


class Sentence(msgspec.Struct):
    """Words up to a full stop, or to a long pause."""

    text: str
    start: float
    end: float


class Paragraph(msgspec.Struct, omit_defaults=True):
    """Sentences that belong together."""

    sentences: list[Sentence]
    num_words: int
    start: float
    end: float
    speaker: int | None = None


class Paragraphs(msgspec.Struct):
    """All paragraphs. ``transcript`` has empty lines between them."""

    transcript: str
    paragraphs: list[Paragraph]


class Alternative(msgspec.Struct, omit_defaults=True):
    """The one reading of a channel."""

    transcript: str
    confidence: float
    words: list[ListenWord]
    paragraphs: Paragraphs | None = None
    languages: list[str] | None = None


class Channel(msgspec.Struct, omit_defaults=True):
    """What was heard in one channel, or in all of them mixed."""

    alternatives: list[Alternative]
    detected_language: str | None = None


class RecordedUtterance(msgspec.Struct, omit_defaults=True):
    """Words of one channel, and of one speaker, without a pause of ``utt_split`` between them."""

    start: float
    end: float
    confidence: float
    channel: int
    transcript: str
    words: list[ListenWord]
    id: str
    speaker: int | None = None


class Results(msgspec.Struct, omit_defaults=True):
    """What was heard."""

    channels: list[Channel]
    utterances: list[RecordedUtterance] | None = None


class Metadata(msgspec.Struct, omit_defaults=True):
    """The request in numbers. ``sha256`` is that of the bytes that arrived."""

    transaction_key: str
    request_id: str
    sha256: str
    created: str
    duration: float
    channels: int
    models: list[str]
    model_info: dict[str, ModelInfo]
    warnings: list[str] | None = None


class Answer(msgspec.Struct):
    """The body of a 200."""

    metadata: Metadata
    results: Results


def results(heard: Sequence[Sequence[Transcript]], request: RecordedRequest) -> Results:
    """The answer's results. ``heard`` has the finals of each channel."""
    spoken = [[word(one, request.punctuate) for final in finals for one in final.words] for finals in heard]
    channels = [_channel(finals, words, request) for finals, words in zip(heard, spoken, strict=True)]
    if not request.utterances:
        return Results(channels)
    utterances = [
        RecordedUtterance(
            start=run[0].start,
            end=run[-1].end,
            confidence=_confidence(run),
            channel=number,
            transcript=_joined(run, request.punctuate),
            words=run,
            id=str(uuid4()),
            speaker=run[0].speaker,
        )
        for number, words in enumerate(spoken)
        for run in _runs(words, request.utt_split)
    ]
    return Results(channels, sorted(utterances, key=lambda one: (one.start, one.channel)))


def _channel(finals: Sequence[Transcript], words: list[ListenWord], request: RecordedRequest) -> Channel:
    languages = list(dict.fromkeys(final.language for final in finals if final.language))
    alternative = Alternative(
        transcript=" ".join(final.text for final in finals if final.text)
        if request.punctuate
        else _joined(words, punctuate=False),
        confidence=_confidence(words),
        words=words,
        paragraphs=_paragraphs(words, request) if request.paragraphs else None,
        languages=languages or None,
    )
    return Channel([alternative], languages[0] if request.detected and languages else None)


def _paragraphs(words: Sequence[ListenWord], request: RecordedRequest) -> Paragraphs:
    found: list[Paragraph] = []
    for run in _sentences(words):
        text = _joined(run, request.punctuate)
        sentence, speaker = Sentence(text, run[0].start, run[-1].end), run[0].speaker
        last = found[-1] if found else None
        if (
            last is None
            or speaker != last.speaker
            or sentence.start - last.end >= _PAUSE_SECONDS
            or len(last.sentences) >= _MOST_SENTENCES
        ):
            found.append(Paragraph([sentence], len(run), sentence.start, sentence.end, speaker))
        else:
            last.sentences.append(sentence)
            last.num_words, last.end = last.num_words + len(run), sentence.end
    texts = [
        ("" if paragraph.speaker is None else f"Speaker {paragraph.speaker}: ")
        + " ".join(sentence.text for sentence in paragraph.sentences)
        for paragraph in found
    ]
    return Paragraphs("\n\n".join(texts), found)


def _sentences(words: Sequence[ListenWord]) -> Iterator[list[ListenWord]]:
    for run in _runs(words, _PAUSE_SECONDS):
        sentence: list[ListenWord] = []
        for one in run:
            sentence.append(one)
            if (one.punctuated_word or one.word).endswith(_ENDS):
                yield sentence
                sentence = []
        if sentence:
            yield sentence


def _runs(words: Sequence[ListenWord], gap: float) -> Iterator[list[ListenWord]]:
    """Groups of words of one speaker that have no gap of ``gap`` seconds between two of them."""
    run: list[ListenWord] = []
    for one in words:
        if run and (one.start - run[-1].end >= gap or one.speaker != run[-1].speaker):
            yield run
            run = []
        run.append(one)
    if run:
        yield run


def _confidence(words: Sequence[ListenWord]) -> float:
    return round(sum(one.confidence for one in words) / len(words), 4) if words else 0.0


def _joined(words: Sequence[ListenWord], punctuate: bool) -> str:
    return " ".join((one.punctuated_word or one.word) if punctuate else bare(one.word) for one in words)
