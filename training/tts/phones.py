"""Phone labels: what sounds alike in Kokoro's alphabet of phonemes has one number."""

_SOUNDS = "A I OQo W Y ɑɒ æa ʌ əᵊɐ ɜ ɛe ɪᵻ i ɔ ʊ u ɹ ʤ ʧ ð θ ŋ ʃ ʒ ɡ h j Tɾ tʔ b d f k l m n p s v w z".split()
NUMBER = {letter: number for number, letters in enumerate(_SOUNDS, 1) for letter in letters}
SILENCE, UNKNOWN = 0, 255  # the latter is a label that no loss counts
PHONES = 1 + len(_SOUNDS)
