"""Text as the small speaking model reads it: sounds of words, and the author's marks (codec/sounds/line.py).

A text begins with a space, so that its tokens are the tokens of its words, one after another: a stream can be encoded
word by word. It ends with one of `RULES.ends`.
"""

from codec.sounds.line import MARKS
from codec.sounds.symbols import SYMBOLS
from engines.manifest import TextRules

RULES = TextRules(alphabet="".join(sorted(SYMBOLS)), marks=MARKS, ends=".?!…,")
"""What the next talker's text may hold.

A comma is among the ends. Where the runtime cuts a sentence at a clause it ends the piece with a comma
(codec/text/pieces.py), and the talker learns from lines that were parted at theirs (training/speech/write.py) that the
pitch does not fall there as it does at a full stop. The full stop stands first, because it ends a piece that lacks any
mark.
"""
