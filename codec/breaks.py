"""Where a reader may pause inside a sentence that has no mark there: before a word that begins a clause.

A small model skips words in a long piece, and sentences without commas are long pieces; at such a word they fall into
two that can be said alone. The word before must not lean on it ("a while", "even though", "nothing but"). Only these
two words are looked at, so text need not wait for what follows. English only.
"""

from typing import Final

_MARKS: Final = "\"'“”‘’()[]*_`~.,!?;:…"

CLAUSE_WORDS: Final = frozenset("although because but since though unless until when whereas while".split())
"""Almost always the first of a clause. Not "if", "so", "that", "where", "and": too often the middle of one."""

_LEANING: Final = frozenset(
    "a all and any anybody anyone anything as at by cannot each even ever every everybody everyone everything"
    " exactly few for from good great half help if in it's just knew know known knows last least less little"
    " long many mere more most much neither no nobody none nor not nothing of on once one only or other quite"
    " rather remember same say short simply so some such tell than that the then these this those to too up"
    " very was were with worth yet".split()
)
"""Words that belong to what follows, or are one expression with it."""


def begins_clause(before: str, word: str) -> bool:
    """Whether a reader may pause between two words as they were written. One that carries a mark begins nothing: what
    would follow is the mark's."""
    last = before.strip(_MARKS).lower()
    return word.lower() in CLAUSE_WORDS and bool(last) and last not in _LEANING and last not in CLAUSE_WORDS
