"""One TOML file configures one model: shape, data, optimisation. Every field has its unit in its comment or name."""

from dataclasses import dataclass, field
from pathlib import Path

from training.settings import read_settings

RECIPE = Path(__file__).with_name("pocket-asr-en.toml")


@dataclass(frozen=True)
class Shape:
    """Dimensions, named as in the official config where they are the same thing."""

    vocab: int = 768
    mel_bins: int = 128
    conv_channels: int = 96
    d_model: int = 320
    encoder_layers: int = 10
    encoder_heads: int = 5
    encoder_ffn: int = 1024
    hidden: int = 320
    decoder_layers: int = 8
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    decoder_ffn: int = 960
    chunk_frames: int = 100  # mel frames the convolutions see at once; positions begin anew in each (2 * n_window)
    window_frames: int = 800  # mel frames that attend to each other; whole chunks (n_window_infer)

    @property
    def chunk_rows(self) -> int:
        """Encoder rows of a full chunk: three halvings, rounding up."""
        return -(-self.chunk_frames // 8)


@dataclass(frozen=True)
class Regularisation:
    """What keeps twenty hours of real speech from being learnt by heart."""

    dropout: float = 0.1
    drop_path: float = 0.1  # a residual branch of a row skipped, encoder only
    label_smoothing: float = 0.1
    token_noise: float = (
        0.2  # mean share of decoder input tokens replaced at random; each row draws its own, 0 to twice this
    )
    weight_decay: float = 0.1
    consistency: float = 0.2  # weight of the divergence between two augmented views (CTC and decoder)
    consistency_from: int = 3000  # steps; ramps over as many again
    ctc: float = 1.0  # weight of CTC up to `ctc_until` of the run, half of it afterwards
    ctc_until: float = 0.35
    ctc_continued: float = 0.5  # in a run that starts from weights
    middle_ctc: float = 0.3  # share of the CTC loss taken at an inner encoder layer
    middle_layer: int = 0  # which one, counted from 1; 0 is the middle
    style: float = 0.0  # share of rows coloured like another row (augment.py); above 0, half of the rows change pace


@dataclass(frozen=True)
class Batches:
    """Rows of a few fixed lengths, so that a step is one of a few captured graphs."""

    seconds_per_step: int = 1600  # audio in all views together
    views: int = 2
    row_seconds: tuple[int, ...] = (4, 8, 16, 32)
    row_share: tuple[float, ...] = (0.18, 0.36, 0.31, 0.15)
    easy_steps: int = 600  # rows of 4 and 8 s only
    augment_ramp: int = 2000  # steps until augmentation has its full strength
    strength: tuple[float, float] = (
        1.0,
        1.0,
    )  # of augmentation, after the ramp: at the start and at the end of the run
    real_share: tuple[float, float] = (0.45, 0.60)  # start, end of the run
    context_share: float = 0.3  # rows with words in the system turn
    context_words: int = 20
    empty_share: float = 0.02
    span_share: float = 0.35  # aligned utterances cut to a random span of words
    planners: int = 4
    pool_hours: float = 600.0
    dev_every: int = 0  # one speaker (or sentence, where speakers are not told apart) in so many is held out; 0: none


@dataclass(frozen=True)
class Optimisation:
    """Muon on layer matrices, AdamW on the rest; the schedule runs on wall-clock: a machine is there for so long."""

    muon_rate: float = 3e-3
    adam_rate: float = 1.5e-3
    warmup_steps: int = 400
    final_rate: float = 0.02  # of the peak
    constant_until: float = 0.3  # share of the run before the cosine begins
    clip: float = 2.0
    average: float = 0.9995  # decay of the weight average
    seed: int = 1


@dataclass(frozen=True)
class Config:
    """The whole file."""

    name: str = "pocket-asr-en"
    shape: Shape = field(default_factory=Shape)
    regularisation: Regularisation = field(default_factory=Regularisation)
    batches: Batches = field(default_factory=Batches)
    optimisation: Optimisation = field(default_factory=Optimisation)
    sources: dict[str, float] = field(default_factory=dict[str, float])  # relative weight of each real source
    voices: dict[str, float] = field(default_factory=dict[str, float])  # relative weight of each synthesiser


def inner_layer(shape: Shape, regularisation: Regularisation) -> int:
    """The encoder layer, counted from 1, that the inner CTC loss reads."""
    return regularisation.middle_layer or shape.encoder_layers // 2


def load_config(path: Path) -> Config:
    """Read a configuration file; an unknown key is an error that names it."""
    return read_settings(Config, path)
