"""Text as the small speaking model reads it: by the runtime's own rules, so that it learns what it will be given.

Contract: `speakable` gives lower-case words with inner apostrophes and the marks , . ? ! ; : and ends with . ? or !.
It begins with a space, so that a text's tokens are the tokens of its words, one after another: a stream can be
encoded word by word.
"""

from codec.text.stream import spoken_text
from engines.manifest import TextRules

RULES = TextRules(alphabet="abcdefghijklmnopqrstuvwxyz'", marks=",.?!;:", ends=".?!")


def speakable(text: str) -> str:
    """`text` in the model's characters; "" where digits would have to be guessed or no word is left."""
    return "" if any(c.isdigit() for c in text) else spoken_text(text, RULES, english=True)
