"""A formula → words: what stands between dollar signs, and letters, numbers and signs that are written as one word.

LaTeX as language models and Markdown write it, one line. What the reader does not know is read by its name or left as
it stands; brackets are not read, since nobody reads them aloud.
"""

import re
from collections.abc import Iterator
from typing import Final

from codec.text import numbers
from codec.text.vocabulary import COMMANDS, GREEK, SIGNS

FUNCTIONS: Final = {
    "sin": "sine", "cos": "cosine", "tan": "tangent", "log": "log", "ln": "l n", "exp": "exp", "max": "max",
    "min": "min", "gcd": "g c d", "lim": "limit", "det": "determinant", "mod": "mod",
}  # fmt: skip
"""Names of functions, and how they are said."""
_CALLED: Final = re.compile("[A-Zfghpα-ωΑ-Ω]")
"""Letters that are the names of functions where a bracket follows."""
_OVER: Final = frozenset(("sum", "prod", "int", "lim"))
"""Commands whose subscript and superscript tell from where to where: a sum, a product, an integral, a limit."""
_TEXT: Final = frozenset("text mathrm mathbf mathit operatorname mathbb mathcal textbf textit".split())
_SIGNS: Final = SIGNS | {
    "-": "minus",
    "–": "minus",
    "*": "times",
    "·": "times",
    "/": "over",
    "!": "factorial",
    ",": ",",
}
_TOKEN: Final = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|\.\d+|[A-Za-z]+|!=|<=|>=|==|->|\S")


def say_formula(text: str) -> str:
    """``"x^2 + \\frac{1}{2}"`` → x squared plus one over two."""
    said: list[str] = []
    for part in _parts(_TOKEN.findall(text)):
        if part == "," and said:
            said[-1] += ","
        elif part:
            said.append(part)
    return " ".join(said)


def _parts(tokens: list[str]) -> Iterator[str]:
    """The words of ``tokens``, which are used up."""
    last = over = ""
    while tokens:
        token = tokens.pop(0)
        name = token[1:] if token[0] == "\\" else ""
        if token == "^":
            exponent = _taken(tokens)
            yield f"to {exponent}" if over else _power(exponent)
        elif token == "_":
            yield f"{'from ' if over else 'base ' if last == 'log' else ''}{_taken(tokens)}"
            continue  # A superscript may follow.
        elif name in ("frac", "dfrac", "tfrac"):
            yield f"{_taken(tokens)} over {_taken(tokens)}"
        elif name == "sqrt":
            yield _root(tokens)
            yield _taken(tokens)
        elif name in _TEXT:
            yield _taken(tokens)
        elif token == "|" and last.isalpha() and tokens[:1] and tokens[0].isalpha():
            yield "given"
        elif token == "(" and (last in FUNCTIONS or _CALLED.fullmatch(last)):
            yield "of"
        else:
            yield _one(token, last)
        over = name if name in _OVER else ""
        last = name or token


def _taken(tokens: list[str]) -> str:
    """The next group in braces, or the next token with the sign before it, as it is read; it is used up."""
    if not tokens:
        return ""
    if tokens[0] not in ("{", "("):
        size = 2 if tokens[0] in ("-", "−", "+") and len(tokens) > 1 else 1
        taken, tokens[:size] = tokens[:size], []
        return " ".join(part for part in _parts(taken) if part)
    opens, closes = ("{", "}") if tokens[0] == "{" else ("(", ")")
    depth, end = 0, len(tokens)
    for place, token in enumerate(tokens):
        depth += (token == opens) - (token == closes)
        if not depth:
            end = place
            break
    taken = tokens[1:end]
    del tokens[: end + 1]
    return " ".join(part for part in _parts(taken) if part)


def _root(tokens: list[str]) -> str:
    """What root it is; its degree in brackets is used up."""
    degree = ""
    if tokens[:1] == ["["] and "]" in tokens:
        end = tokens.index("]")
        degree = "".join(tokens[1:end])
        del tokens[: end + 1]
    if degree in ("", "2", "3"):
        return f"{'cube' if degree == '3' else 'square'} root of"
    return f"{numbers.ordinal(degree) if degree.isdecimal() else degree} root of"


def _power(exponent: str) -> str:
    return {"two": "squared", "three": "cubed", "degrees": "degrees"}.get(exponent, f"to the {exponent}")


def _one(token: str, last: str) -> str:
    """A token that stands for itself. ``last``: the one before it."""
    if token[0] == "\\":
        return COMMANDS.get(token[1:], token[1:] if token[1:].isalpha() else "")
    if token[0].isdecimal() or (token[0] == "." and len(token) > 1):
        return numbers.quantity(token)
    if token in FUNCTIONS:
        return FUNCTIONS[token]
    if token in GREEK:
        return GREEK[token]
    if token.isalpha():
        product = len(token) <= 2 or not re.search("[aeiouy]", token, re.I)
        return " ".join(token) if product and token.isascii() else token
    return _SIGNS.get(token, "")
