"""flite's phones (US English) and their numbers."""

PHONES = (
    "pau aa ae ah ao aw ax ax-h axr ay b ch d dh dx eh el em en er ey f g hh hv ih iy jh k l m n nx ng ow oy p r s sh "
    "t th uh uw v w y z zh"
).split()  # fmt: skip
PHONES += ["?"] * (52 - len(PHONES))  # room, so that the head's width stays as it was first trained
NUMBER = {name: i for i, name in enumerate(PHONES) if name != "?"}
SILENCE = NUMBER["pau"]
UNKNOWN = 255  # a label that no loss counts
IPA = dict(
    zip(
        "A I O Q W Y ɑ ɒ æ a ʌ ə ᵊ ɐ ɜ ɛ e ɪ ᵻ i ɔ o ʊ u ɹ ʤ ʧ ð θ ŋ ʃ ʒ ɡ h j T ɾ ʔ "
        "b d f k l m n p s t v w z".split(),
        "ey ay ow ow aw oy aa aa ae ae ah ax ax ax er eh eh ih ih iy ao ow uh uw r jh ch dh th ng sh zh g hh y dx dx t "
        "b d f k l m n p s t v w z".split(),
        strict=True,
    )
)  # fmt: skip
"""A letter of Kokoro's alphabet of phonemes -> the nearest of the phones above."""
