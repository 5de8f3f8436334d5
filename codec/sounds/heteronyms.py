"""Which way a word is read that has several: by the words before it.

Most such words are a verb one way and a noun or an adjective the other: the weights of codec/sounds/neighbours.py tell.
A few have rules of their own here.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from codec.sounds.neighbours import Neighbours

_DESCRIBED: Final = frozenset(
    "am are as be became become becomes been being feel feels felt get got is less looked looks more most quite rather"
    " remained remains seem seemed seems so too very was were".split()
)
"""Words after which an adjective comes rather than a noun ("quite content", "was invalid")."""
_HAVING: Final = frozenset("be been being had has have having was were is are i've you've we've they've".split())
_BASE: Final = frozenset(
    "can can't cannot could couldn't did didn't do does doesn't don't i'd i'll let let's may might must must've never"
    " not please shall should shouldn't they'll to we'll will won't would wouldn't you'll".split()
)
_SUBJECTS: Final = frozenset("he it she who".split())
_OTHERS: Final = frozenset("i they we you".split())
_AFTER_SUBJECTS: Final = frozenset(
    "can can't cannot couldn't didn't doesn't don't i i'd i'll let's mustn't please shouldn't they they'll they'd we"
    " we'd we'll won't wouldn't you you'd you'll".split()
)
"""Words after which a word that can be a verb is one. They are rules since the sentences from which the weights were
learnt have few of them."""
_ORDERS: Final = frozenset("close excuse read separate tear use wind".split())
"""Verbs that are orders where a sentence begins with them."""
_ACCUSTOMED: Final = frozenset("get gets getting got i'm there they're we're you're".split())
_TIMES: Final = frozenset("ago already earlier ever just last never once recently since then yesterday".split())


def _read(before: Sequence[str]) -> bool:
    """Whether "read" is the past: "has read", "she read", "then I read", not "to read", "can you read", "I read"."""
    words = [word.lower() for word in before]
    last = words[-1] if words else ""
    second = words[-2] if len(words) > 1 else ""
    if last in _BASE or second in _BASE:
        return last in _HAVING
    if last in _HAVING or second in _HAVING or last in _SUBJECTS:
        return True
    if last in _OTHERS:
        return second in _TIMES
    return before[-1][:1].isupper() and not last.endswith("s") if before else False


def _used(before: Sequence[str]) -> bool:
    """Whether "used" is that of "used to": more often than not after a subject, and after "get"."""
    return bool(before) and before[-1].lower() in _SUBJECTS | _OTHERS | _ACCUSTOMED


def _past(before: Sequence[str]) -> bool:
    """Whether a past tense or a participle is likely: "was wound", "he slowly wound it"."""
    words = [word.lower() for word in before]
    if len(words) > 1 and words[-1].endswith("ly"):
        words.pop()
    return bool(words) and words[-1] in _HAVING | _SUBJECTS | _OTHERS


_RULES: Final[Mapping[str, Callable[[Sequence[str]], bool]]] = {"read": _read, "reread": _read, "used": _used}
"""Words that sound different in the past tense, each with a rule that tells by the words before whether it is one."""


def tag(word: str, ways: Collection[str], before: Sequence[str], neighbours: Neighbours) -> str:
    """The tag of the way to read ``word`` (codec/sounds/dictionary.py), "" for its usual one."""
    low = word.lower()
    if "D" in ways:
        return "D" if _RULES.get(low, _past)(before) else ""
    last = before[-1].lower() if before else ""
    if (not last and low in _ORDERS) or last in _AFTER_SUBJECTS or neighbours.verb(low, before):
        return "V"
    return "" if last in _DESCRIBED else "N"
