"""The recipe of `pocket-asr-en`: shape, data, optimisation. Every field has its unit in its comment or name. "The sixth
run" and its like are those of notes/2026-11-hearing-runs.md, and "the warm start" is the last section there."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """Dimensions, named as in the official config where they are the same thing. A checkpoint folder tells its own
    (checkpoint.py). These are where the model begins: the layers are Whisper base's, and the decoder is the one that
    ships."""

    vocab: int = 1536
    mel_bins: int = 128
    conv_channels: int = 96
    d_model: int = 512
    encoder_layers: int = 6
    encoder_heads: int = 8
    encoder_ffn: int = 2048
    hidden: int = 320
    decoder_layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    decoder_ffn: int = 960
    # Mel frames that the convolutions see at once, 2 s (2 * n_window). Chunks of 1, 2 and 4 s were within a point in
    # the first runs.
    chunk_frames: int = 200
    # Mel frames that attend to each other, which are whole chunks; the released models' number (n_window_infer).
    window_frames: int = 800
    # Whether each row of a window has a position of its own, which is learnt, in place of the official sines, which
    # begin anew in each chunk. Whisper's untrained layers are .24 from its states by its own positions, four a row,
    # and .65 by the official ones, further than its mean state is (.38).
    placed: bool = True

    @property
    def chunk_rows(self) -> int:
        """The encoder rows of a full chunk: an eighth of its frames after three halvings, each rounded up."""
        return -(-self.chunk_frames // 8)

    @property
    def window_rows(self) -> int:
        """The encoder rows of a full window."""
        return self.window_frames // self.chunk_frames * self.chunk_rows


@dataclass(frozen=True)
class Regularisation:
    """What keeps forty hours of real speech from being learnt by heart, and the weights of what is learnt."""

    # The sixth run was better with 0.08 than with 0.1. Whisper's layers never had any: 0.08 brings them from .34 to .57
    # of their states' distance at the beginning, 0.04 to .47.
    dropout: float = 0.05
    # That of the layers which read the states: those above Whisper's and the decoder. They know the recordings by heart
    # (errors of 0 to 2 % on what was learnt, 9 to 26 on strangers), and Whisper's never had them.
    reading_dropout: float = 0.1
    label_smoothing: float = 0.1  # The usual share (Vaswani et al. 2017).
    # Mean share of the decoder's input tokens that are replaced at random; each row draws from 0 to twice this. Without
    # it a decoder recites the transcripts that it has seen and does not listen (first runs).
    token_noise: float = 0.2
    weight_decay: float = 0.02
    # This weighs the divergence between two augmented views of a row (CTC's and the decoder's), as in CR-CTC (Yao et
    # al. 2024).
    consistency: float = 0.2
    # This weighs CTC beside the decoder's cross-entropy. At 0.8 CTC was further behind than the decoder after the warm
    # start's first stretch, and rescoring and commits ask it.
    ctc: float = 1.5
    # This weighs the distance to the teacher's states, before the rate falls and at its end. At 25 the states lead, and
    # the warm start had the fewest errors so. They lead to the end: strangers' states are as near as those of clips
    # that were learnt from, and it is the texts that are known by heart.
    taught: tuple[float, float] = (25.0, 25.0)
    stem: float = 1.0  # It weighs the distance to the teacher's rows behind the convolutions.
    # Share of rows that are coloured like another row (augment.mix_style), which was new in the fourth run.
    style: float = 0.2


@dataclass(frozen=True)
class Batches:
    """Rows have a few fixed lengths, so that a step is one of a few captured graphs."""

    # Seconds of audio in both views together, on each GPU. The host launches a step in 40 ms: at 600 s it holds the GPU
    # back, at 1,200 s (64 ms a step) it does not (eighth run).
    seconds_per_step: int = 1200
    # Seconds of a row, and how often each is drawn: short commands, sentences, paragraphs as a stream has them.
    row_seconds: tuple[int, ...] = (4, 8, 16, 32)
    row_share: tuple[float, ...] = (0.16, 0.36, 0.33, 0.15)
    # Recordings of a batch, beside Kokoro. The sixth run was better with 0.4 to 0.6 than with less; the warm start's
    # first stretch had 0.6 and knew them by heart in the end (0 to 2 % errors).
    real_share: float = 0.5
    context_share: float = 0.4  # Rows with words in the system turn, from which the decoder learns to take keyterms.
    context_words: int = 20  # So many words stand in a context at most.
    empty_share: float = 0.02  # Rows without a word, from which the model learns to hear nothing in noise and music.
    # Aligned recordings that are cut to a random span of words, which others follow. Whole ones were heard 250 times
    # each and could be recited; whole sentences come from Kokoro, who says others in each stretch.
    span_share: float = 0.75
    # Recordings that are there once more as a telephone passes them on: with a tenth of them telephone errors fell by a
    # ninth (eighth run).
    telephone_share: float = 0.1
    planners: int = 12  # Processes that draw plans beside each GPU; a machine has 16 cores for each.
    pool_hours: float = 110.0  # Hours of audio in memory on each GPU; as int16 they are 12.7 GB.
    # One speaker in so many is held out, or one sentence where a corpus does not tell its speakers. Of LibriSpeech, by
    # whose strangers a model is judged, it is one reader in `dev_readers`: 3 of 30.
    dev_every: int = 40
    dev_readers: int = 16


@dataclass(frozen=True)
class Optimisation:
    """Muon learns the matrices of the layers, AdamW the rest.

    The schedule counts audio heard (rows at their full length, both views, all GPUs), so that a run can go on for as
    many half hours as there are. After the warm-up the rate stays. What ships is made of any state by letting the rate
    fall to nothing (`fall_hours`), and no later stretch goes on from there.
    """

    # At 1.2e-3 a run that began from weights got worse for thousands of steps; at 5.4e-4 it gained from the first
    # hundred (first runs). Adam's rate is the same, because Muon's updates are as large as Adam's (optimizer.py).
    muon_rate: float = 4e-4
    adam_rate: float = 4e-4
    # By so much Adam's rate is multiplied for what neither Whisper nor the shipped model has learnt before.
    new_pace: float = 2.0
    warmup_hours: float = 150.0  # The rate rises over so many hours: 450 steps of one GPU.
    text_warmup_hours: float = 300.0  # Hours in which the decoder, which knew another encoder, comes to its rate.
    # Two states lie so many hours of each GPU apart: some three minutes at the pace of the sixth run.
    save_hours: float = 1000.0
    # Hours in which the rate falls to nothing, or what a stretch hears if that is less. The last fifth of the warm
    # start's first stretch, in which it fell, took more errors off than the half before that.
    fall_hours: float = 20_000.0
    clip: float = 1.5  # The longest gradient that is not shortened.
    seed: int = 5


@dataclass(frozen=True)
class Config:
    """The whole recipe. sources: weights within real speech, by the names in shards.SOURCES. They favour sources with
    many speakers over those with many hours."""

    name: str = "pocket-asr-en"
    shape: Shape = field(default_factory=Shape)
    regularisation: Regularisation = field(default_factory=Regularisation)
    batches: Batches = field(default_factory=Batches)
    optimisation: Optimisation = field(default_factory=Optimisation)
    sources: Mapping[str, float] = field(default_factory=lambda: {
        "librispeech": 8.0, "common_voice_v1": 5.0, "common_voice": 5.0, "unlabelled": 7.0, "speechocean762": 4.0,
        "storybook": 0.8, "kathleen": 0.6, "vctk": 0.3, "an4": 0.4, "asterisk": 0.3, "digits": 0.3, "wake_words": 0.2,
        "intents": 0.3,
    })  # fmt: skip
