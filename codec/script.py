"""What a session still has to say: raw text, fragments, tokens and the marks between them, in order.

Raw text is normalised a slice at a time, only as far ahead as the talker needs it, so a long text costs neither time
nor memory in advance. Not thread-safe: the speaker's lock is held around every call.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from codec.prompt import Prompt
from codec.sounds.speller import Speller
from codec.text.pieces import Fragment, Item, PieceEnd
from codec.text.stream import TextStream
from engines.manifest import TtsManifest

SLICE: Final = 64
"""How many characters are normalised at a time: some four seconds of speech, and a millisecond of work, for which the
first sound waits."""
LOOK: Final = 256
"""How many characters without anything to say are normalised before the caller is told to look again."""
END: Final = -1
"""It stands in place of a token where the piece's text has ended."""


class FinishMark:
    """The mark after which nothing is spoken."""


Mark = int | FinishMark
_Queued = Item | Mark


class Script:
    """The queue between ``say`` and the talker."""

    def __init__(self, prompt: Prompt, manifest: TtsManifest, *, english: bool, speller: Speller | None = None) -> None:
        """``speller`` turns fragments into sounds, for a model that reads sounds."""
        self._prompt, self._speller = prompt, speller
        self._raw: deque[str | Mark] = deque()
        self._raw_chars = 0
        self._queue: deque[_Queued] = deque()
        self._stream = TextStream(manifest.text, english=english)
        self._tokens: deque[int] = deque()
        self._said: list[Fragment] = []
        """The fragments of the piece being spoken."""
        self._ends: list[PieceEnd] = []
        """The ends of pieces that were found between the last piece and the next."""
        self._drew = self._voiced = self._behind = False
        self.in_vain = False
        """Whether the last mark closed text in which there was nothing to speak."""

    # ---------------------------------------------------------------- in

    @property
    def pending(self) -> int:
        """Characters not yet normalised, or normalised and not yet handed over."""
        return self._raw_chars + sum(len(item.text) for item in self._queue if isinstance(item, Fragment))

    def say(self, text: str) -> None:
        """Append raw text."""
        if text:
            self._raw.append(text)
            self._raw_chars += len(text)

    def mark(self, number: int) -> None:
        """End the open piece here, then yield ``number`` from :meth:`next_mark`."""
        self._raw.append(number)

    def finish(self) -> None:
        """End the open piece; then nothing follows. Once, and again after each clear."""
        self._raw.append(FinishMark())

    def clear(self) -> None:
        """Forget everything. Character places go on counting."""
        self._stream.clear(self._raw_chars)
        self._raw.clear()
        self._raw_chars = 0
        self._queue.clear()
        self._tokens.clear()
        self._said.clear()
        self._stream.unread()
        if self._speller is not None:
            self._speller.end()
        self._ends.clear()
        self._drew = self._voiced = self._behind = False

    # ---------------------------------------------------------------- out

    @property
    def behind(self) -> bool:
        """Whether the last look found nothing, but only because it ended before the raw text did: look again.

        Whoever adds text waits for the lock meanwhile, and a long text may hold nothing that can be spoken.
        """
        return self._behind and bool(self._raw)

    def next_mark(self) -> Mark | None:
        """The mark that is due now, removed; None where text or nothing is next."""
        if self._drop_ends() and isinstance(self._queue[0], int | FinishMark):
            mark = self._queue.popleft()
            assert isinstance(mark, int | FinishMark)
            self.in_vain = self._drew and not self._voiced
            self._drew = self._voiced = False
            return mark
        return None

    def unread(self) -> str:
        """Letters and signs that no sound was found for since the last call, each once."""
        return self._stream.unread()

    def has_text(self, *, whole: bool) -> bool:
        """Whether a piece can begin; ``whole``: whether all of its text is there."""
        if not self._drop_ends() or not isinstance(self._queue[0], Fragment):
            return False
        return not whole or self._draw_until(lambda: any(isinstance(item, PieceEnd) for item in self._queue))

    def take_ends(self) -> list[PieceEnd]:
        """What stands between the last piece and the next one, which can begin: it says how long the pause is."""
        ends, self._ends = self._ends, []
        return ends

    def next_token(self) -> int | None:
        """The next token of the piece being spoken, END after its last, None where the text is late."""
        while not self._tokens:
            if not self._fill():
                return None
            item = self._queue[0]
            if not isinstance(item, Fragment):
                return END
            self._queue.popleft()
            self._voiced = True
            self._said.append(item)
            text = item.text if self._speller is None else self._speller.spell(item.text, marked=item.marked)
            self._tokens.extend(self._prompt.encode(text))
        return self._tokens.popleft()

    def whole(self) -> list[int]:
        """All tokens of the next piece, whose text is all there."""
        ids: list[int] = []
        while (token := self.next_token()) is not None and token != END:
            ids.append(token)
        return ids

    def end_piece(self) -> list[Fragment]:
        """The piece has been spoken: what it was made of."""
        said, self._said = self._said, []
        if self._speller is not None:
            self._speller.end()
        # Tokens that were not read go with the piece; unread fragments become the next one.
        self._tokens.clear()
        return said

    # ---------------------------------------------------------------- raw text → queue

    def _fill(self) -> bool:
        """Normalise text until the queue has an item. Returns whether it has one."""
        return self._draw_until(lambda: bool(self._queue))

    def _draw_until(self, enough: Callable[[], bool]) -> bool:
        """Normalise until ``enough()``; False where the raw text ends before, or ``LOOK`` of it was not enough."""
        self._behind = False
        least = self._raw_chars - LOOK
        while not enough():
            if self._raw_chars <= least:
                self._behind = True
                return False
            if not self._draw():
                return False
        return True

    def _draw(self) -> bool:
        """Normalise one slice or take one mark; False where no raw text is left."""
        if not self._raw:
            return False
        first = self._raw.popleft()
        if not isinstance(first, str):
            self._queue.extend(self._stream.flush())
            self._queue.append(first)
            return True
        if len(first) > SLICE:
            self._raw.appendleft(first[SLICE:])
            first = first[:SLICE]
        self._raw_chars -= len(first)
        self._drew = True
        self._queue.extend(self._stream.feed(first))
        return True

    def _drop_ends(self) -> bool:
        """Whether the queue has an item, without the ends of pieces, which say nothing between pieces."""
        while self._fill():
            item = self._queue[0]
            if not isinstance(item, PieceEnd):
                return True
            self._ends.append(item)
            self._queue.popleft()
        return False
