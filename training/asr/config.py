"""The recipe of `pocket-asr-en`: shape, data, optimisation. Every field has its unit in its comment or name."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Shape:
    """Dimensions, named as in the official config where they are the same thing."""

    vocab: int = 1536
    mel_bins: int = 128
    conv_channels: int = 96
    d_model: int = 384
    encoder_layers: int = 16
    encoder_heads: int = 6
    encoder_ffn: int = 1536
    hidden: int = 320
    decoder_layers: int = 6
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    decoder_ffn: int = 960
    chunk_frames: int = 200  # mel frames the convolutions see at once; positions begin anew in each (2 * n_window)
    window_frames: int = 800  # mel frames that attend to each other; whole chunks (n_window_infer)

    @property
    def chunk_rows(self) -> int:
        """Encoder rows of a full chunk: three halvings, rounding up."""
        return -(-self.chunk_frames // 8)


@dataclass(frozen=True)
class Regularisation:
    """What keeps forty hours of real speech from being learnt by heart."""

    dropout: float = 0.08
    drop_path: float = 0.08  # a residual branch of a row skipped, encoder only
    label_smoothing: float = 0.1
    token_noise: float = 0.2  # decoder input tokens replaced at random, mean share; a row draws 0 to twice this
    weight_decay: float = 0.1
    consistency: float = 0.2  # weight of the divergence between two augmented views (CTC and decoder)
    ctc: float = 0.8  # weight of CTC
    middle_ctc: float = 0.4  # share of the CTC loss taken at an inner encoder layer
    middle_layer: int = 11  # which one, counted from 1
    taught: float = 10.0  # weight of the distance to the teacher's states, where a run has a teacher
    style: float = 0.2  # share of rows coloured like another row (augment.py)


@dataclass(frozen=True)
class Batches:
    """Rows of a few fixed lengths, so that a step is one of a few captured graphs."""

    seconds_per_step: int = 1200  # audio in both views together, on each GPU
    row_seconds: tuple[int, ...] = (4, 8, 16, 32)
    row_share: tuple[float, ...] = (0.16, 0.36, 0.33, 0.15)
    strength: tuple[float, float] = (1.0, 0.9)  # of augmentation: at the start and at the end of the run
    real_share: tuple[float, float] = (0.4, 0.6)  # start, end of the run
    context_share: float = 0.4  # rows with words in the system turn
    context_words: int = 20
    empty_share: float = 0.02
    span_share: float = 0.3  # aligned utterances cut to a random span of words
    telephone_share: float = 0.1  # recordings that are there once more, over a telephone
    planners: int = 12
    pool_hours: float = 150.0  # on each GPU
    dev_every: int = 40  # one speaker (or sentence, where speakers are not told apart) in so many is held out


@dataclass(frozen=True)
class Optimisation:
    """Muon on layer matrices, AdamW on the rest; the schedule runs on wall-clock: a machine is there for so long."""

    muon_rate: float = 9e-4
    adam_rate: float = 4.5e-4
    warmup_steps: int = 200
    final_rate: float = 0.01  # of the peak
    constant_until: float = 0.2  # share of the run before the cosine begins
    clip: float = 1.5
    average: float = 0.9995  # decay of the weight average
    seed: int = 5


@dataclass(frozen=True)
class Config:
    """The whole recipe. sources: weights within real speech; names as in shards.SOURCES."""

    name: str = "pocket-asr-en"
    shape: Shape = field(default_factory=Shape)
    regularisation: Regularisation = field(default_factory=Regularisation)
    batches: Batches = field(default_factory=Batches)
    optimisation: Optimisation = field(default_factory=Optimisation)
    sources: Mapping[str, float] = field(default_factory=lambda: {
        "librispeech": 7.5, "common_voice_v1": 4.0, "common_voice": 6.0, "unlabelled": 7.0, "speechocean762": 3.2,
        "storybook": 0.8, "kathleen": 0.6, "vctk": 0.3, "an4": 0.4, "asterisk": 0.3, "digits": 0.3, "wake_words": 0.2,
        "intents": 0.3,
    })  # fmt: skip
