"""One TOML file configures one speaking model: shapes, data, optimisation.

Fields that exist in the official config.json carry its names; every other field has its unit in its comment or name.
"""

from dataclasses import dataclass, field
from pathlib import Path

from training.settings import read_settings

RATE = 24_000  # samples a second of everything in this package
FRAME = 1920  # samples a codec frame: 12.5 frames a second
FRAMES_AN_HOUR = 45_000
LABEL = 480  # samples a phone label: 50 labels a second, four a frame


@dataclass(frozen=True)
class CodecShape:
    """Decoder (official names) and the encoder that only training needs."""

    codebook_size: int = 1024
    num_quantizers: int = 8
    codebook_dim: int = 128  # width of the quantised sum; a codebook has half of it
    latent_dim: int = 256
    hidden_size: int = 256
    num_hidden_layers: int = 3
    num_attention_heads: int = 4
    intermediate_size: int = 640
    sliding_window: int = 72
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    layer_scale_initial_scale: float = 0.05
    decoder_dim: int = 256
    upsample_rates: tuple[int, ...] = (8, 5, 4, 3)
    upsampling_ratios: tuple[int, ...] = (2, 2)
    encoder_width: int = 320
    encoder_blocks: tuple[int, ...] = (3, 3, 2, 4)  # at 100, 50, 25 and 12.5 frames a second


@dataclass(frozen=True)
class TalkerShape:
    """Talker, and the predictor of the other codebooks (fields with `predictor_`)."""

    text_vocab_size: int = 768
    text_hidden_size: int = 256
    hidden_size: int = 320
    intermediate_size: int = 896
    num_hidden_layers: int = 6
    num_attention_heads: int = 5
    num_key_value_heads: int = 5
    head_dim: int = 64
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    control_ids: int = 32  # rows of the codec vocabulary after the codes of codebook 0
    predictor_hidden_size: int = 192
    predictor_intermediate_size: int = 512
    predictor_num_hidden_layers: int = 3
    predictor_num_attention_heads: int = 3


@dataclass(frozen=True)
class CodecTraining:
    """Optimisation of the codec. The schedule runs on wall-clock: a machine is there for so long."""

    batch: int = 12  # crops a step
    frames: int = 80  # of a crop
    slice_frames: int = 16  # decoded and compared: two slices a crop
    history_frames: int = 4  # decoded before a slice, not compared
    others_share: float = 0.2  # crops of other speakers beside the voices
    gain: float = 0.15  # crops are played up to so much softer or louder: every utterance has one level
    unquantised_steps: int = 400  # before the codebooks are made by k-means; 0 keeps those of the weights begun from
    mel_weight: float = 15.0
    magnitude_weight: float = 1.5  # of square-root magnitudes within the spectral distance: what is loud
    phone_weight: float = 2.0
    commitment_weight: float = 0.5
    adversarial_from: float = 0.6  # share of the run after which discriminators take part, once the distance settled
    settled: float = 0.02  # the held-out distance has settled where it falls by less than this share in a minute
    adversarial_share: float = 0.5  # norm of their gradient at the vocoder, of all others'; 0: no discriminators
    adversarial_head_start: int = 200  # steps in which they learn alone
    adversarial_warmup: int = 500  # steps after those over which the share rises from nothing
    likeness_weight: float = 2.0  # of the hidden layers' distances beside the scores
    discriminator_rate: float = 6e-4
    period_widths: tuple[int, ...] = (32, 64, 128, 256, 256)
    spectrum_width: int = 32
    speed: float = 0.06  # crops of other speakers are played up to so much faster or slower
    ema: float = 0.98
    dead_usage: float = 0.1  # vectors a batch below which an entry is restarted
    rate: float = 6e-4
    warmup_steps: int = 100
    final_rate: float = 0.1  # of the peak
    clip: float = 5.0
    seed: int = 1


@dataclass(frozen=True)
class TalkerTraining:
    """Optimisation of talker and predictor on codes."""

    positions: int = 10240  # a step
    lengths: tuple[int, ...] = (40, 52, 64, 80, 122, 180)  # positions of a row: the buckets
    predictor_frames: int = 2560  # frames a step that the predictor learns from
    rate: float = 1.5e-3
    warmup_steps: int = 500
    final_rate: float = 0.02
    dropout: float = 0.1
    joined: float = 0.0  # share of the utterances that stand in a second row too, after the one before: longer rows
    code_noise: float = 0.05  # input codes replaced at random, mean share
    own_share: float = 0.0  # at most so many frames of a row hold the model's own likeliest codes; 0: the recorded ones
    own_rows: float = 0.5  # rows of a step that such frames are put into
    own_first: float = 0.0  # of such frames, how many take codebook 0 from the talker too
    own_steps: int = 3000  # from scratch the share grows from nothing over them
    book_weights: tuple[float, ...] = ()  # of the losses of books 1..K-1; none: their mean
    guide_layer: int = 2
    guide_steps: int = 3000  # the diagonal attention guide decays over them
    weight_decay: float = 0.05
    clip: float = 1.0
    cpu_bfloat16: bool = False  # on a processor compute in bfloat16 too: four times faster where it has instructions
    seed: int = 1


@dataclass(frozen=True)
class Config:
    """The whole file."""

    name: str = "pocket-tts-en"
    codec: CodecShape = field(default_factory=CodecShape)
    talker: TalkerShape = field(default_factory=TalkerShape)
    codec_training: CodecTraining = field(default_factory=CodecTraining)
    talker_training: TalkerTraining = field(default_factory=TalkerTraining)
    speakers: tuple[str, ...] = ("voice",)  # of the codec vocabulary, in the order of their ids


def load_config(path: Path) -> Config:
    """Read a configuration file. An unknown key or an impossible shape is an error that names it."""
    config = read_settings(Config, path)
    check(config)
    return config


def check(config: Config) -> None:
    """Raise ValueError where the shapes cannot be those of the architecture."""
    c, t = config.codec, config.talker
    samples = 1
    for rate in (*c.upsample_rates, *c.upsampling_ratios):
        samples *= rate
    if samples != FRAME:
        raise ValueError(f"codec.upsample_rates × upsampling_ratios: {samples} samples a frame, must be {FRAME}")
    if c.num_quantizers < 2:
        raise ValueError(
            f"codec.num_quantizers: {c.num_quantizers}, must be at least 2 (one semantic, the rest acoustic)"
        )
    if c.decoder_dim % 2 ** len(c.upsample_rates):
        raise ValueError(f"codec.decoder_dim: {c.decoder_dim} cannot be halved {len(c.upsample_rates)} times")
    if t.num_attention_heads % t.num_key_value_heads:
        raise ValueError(
            f"talker.num_key_value_heads: {t.num_key_value_heads} does not divide {t.num_attention_heads} heads"
        )
    weights = config.talker_training.book_weights
    if weights and len(weights) != c.num_quantizers - 1:
        raise ValueError(
            f"talker_training.book_weights: {len(weights)}, must be {c.num_quantizers - 1}: one a book after the first"
        )
    if not 0 <= config.talker_training.own_rows <= 1:
        raise ValueError(f"talker_training.own_rows: {config.talker_training.own_rows}, must lie in 0..1")
    if t.control_ids < 8 + len(config.speakers):
        raise ValueError(f"talker.control_ids: {t.control_ids} do not hold 8 tags and {len(config.speakers)} speakers")
