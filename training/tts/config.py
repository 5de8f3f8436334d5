"""The recipe of `pocket-tts-en`: shapes, data, optimisation.

Fields that exist in the official config.json carry its names; every other field has its unit in its comment or name.
"""

from dataclasses import dataclass, field

RATE = 24_000  # samples a second of everything in this package
FRAME = 1920  # samples a codec frame: 12.5 frames a second
FRAMES_AN_HOUR = 45_000
LABEL = 480  # samples a phone label: 50 labels a second, four a frame
# Phone labels: what sounds alike in Kokoro's alphabet of phonemes has one number.
_SOUNDS = "A I OQo W Y ɑɒ æa ʌ əᵊɐ ɜ ɛe ɪᵻ i ɔ ʊ u ɹ ʤ ʧ ð θ ŋ ʃ ʒ ɡ h j Tɾ tʔ b d f k l m n p s v w z".split()
NUMBER = {letter: number for number, letters in enumerate(_SOUNDS, 1) for letter in letters}
SILENCE, UNKNOWN = 0, 255  # the latter is a label that no loss counts
PHONES = 1 + len(_SOUNDS)


@dataclass(frozen=True)
class CodecShape:
    """Decoder (official names) and the encoder that only training needs."""

    codebook_size: int = 1024
    num_quantizers: int = 8
    codebook_dim: int = 128  # width of the quantised sum; a codebook has half of it
    latent_dim: int = 256
    hidden_size: int = 256
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    intermediate_size: int = 576
    sliding_window: int = 72
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-5
    layer_scale_initial_scale: float = 0.05
    decoder_dim: int = 384
    upsample_rates: tuple[int, ...] = (6, 5, 4, 4)
    upsampling_ratios: tuple[int, ...] = (2, 2)
    encoder_width: int = 384
    encoder_blocks: tuple[int, ...] = (3, 3, 3, 5)  # at 100, 50, 25 and 12.5 frames a second


@dataclass(frozen=True)
class TalkerShape:
    """Talker, and the predictor of the other codebooks (fields with `predictor_`)."""

    text_vocab_size: int = 768
    text_hidden_size: int = 256
    hidden_size: int = 384
    intermediate_size: int = 1024
    num_hidden_layers: int = 6
    num_attention_heads: int = 6
    num_key_value_heads: int = 6
    head_dim: int = 64
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    control_ids: int = 32  # rows of the codec vocabulary after the codes of codebook 0
    predictor_hidden_size: int = 192
    predictor_intermediate_size: int = 512
    predictor_num_hidden_layers: int = 4
    predictor_num_attention_heads: int = 3


@dataclass(frozen=True)
class SpeakerShape:
    """The speaker encoder (official names)."""

    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (256, 256, 256, 256, 512)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 64
    enc_res2net_scale: int = 8
    enc_se_channels: int = 64


@dataclass(frozen=True)
class CodecTraining:
    """Optimisation of the codec. The schedule runs on wall-clock: a machine is there for so long."""

    batch: int = 20  # crops a step
    frames: int = 80  # of a crop
    slice_frames: int = 25  # decoded and compared: a slice a crop
    history_frames: int = 4  # decoded before a slice, not compared
    gain: float = 0.15  # crops are played up to so much softer or louder: every utterance has one level
    unquantised_steps: int = 400  # past the codebooks, and then as many through them, of the encoder alone
    mel_weight: float = 15.0
    magnitude_weight: float = 1.5  # of square-root magnitudes within the spectral distance: what is loud
    phone_weight: float = 2.0
    commitment_weight: float = 0.5
    ear_weight: float = 6.0  # of the distance to the hearing model's encoder
    ema: float = 0.98
    dead_usage: float = 0.1  # vectors a batch below which an entry is restarted
    rate: float = 6e-4
    warmup_steps: int = 200
    final_rate: float = 0.03  # of the peak
    clip: float = 5.0
    seed: int = 1


@dataclass(frozen=True)
class DecoderTraining:
    """Optimisation of the codec's decoder on fixed codes, against discriminators."""

    batch: int = 10  # crops a step
    frames: int = 80  # of a crop: what the transformer sees
    slice_frames: int = 16  # decoded, compared and judged: a slice a crop
    history_frames: int = 4  # decoded before a slice, not compared
    mel_weight: float = 15.0
    magnitude_weight: float = 0.5  # as in CodecTraining
    ear_weight: float = 8.0  # as in CodecTraining
    likeness_weight: float = 2.0  # of distances between the discriminators' hidden layers
    period_widths: tuple[int, ...] = (32, 64, 128, 256, 256)  # channels of the layers that judge periods
    spectrum_width: int = 32  # channels of those that judge spectra
    rate: float = 3e-4  # of decoder and discriminators
    warmup_steps: int = 200
    final_rate: float = 0.03  # of the peak
    clip: float = 10.0
    seed: int = 1


@dataclass(frozen=True)
class TalkerTraining:
    """Optimisation of talker and predictor on codes."""

    positions: int = 16384  # a step
    lengths: tuple[int, ...] = (48, 72, 100, 140, 200, 320)  # positions of a row: the buckets
    predictor_frames: int = 6144  # frames a step that the predictor learns from
    rate: float = 6e-4  # of a talker that ships; 1e-3 from nothing
    encoder_pace: float = 0.3  # of the rate, for the speaker encoder: nothing in it keeps activations at one size
    warmup_steps: int = 200
    final_rate: float = 0.02
    dropout: float = 0.1
    cloned_rows: float = 0.5  # rows of a step whose speaker is heard in a recording; the others have our own voices
    narrow: float = 0.5  # of these recordings, how many lack their upper frequencies
    code_noise: float = 0.03  # input codes replaced at random, mean share
    own_rows: float = 0.6  # rows of a step in which a share of the frames holds the model's own likeliest codes
    own_first: float = 0.15  # of such frames, how many take codebook 0 from the talker too
    own_steps: int = 2000  # the share grows from nothing to all over them
    guide_layer: int = 2
    guide_steps: int = 2000  # the diagonal attention guide decays over them
    weight_decay: float = 0.05
    clip: float = 1.0
    seed: int = 1


@dataclass(frozen=True)
class Config:
    """The whole recipe."""

    name: str = "pocket-tts-en"
    codec: CodecShape = field(default_factory=CodecShape)
    talker: TalkerShape = field(default_factory=TalkerShape)
    speaker: SpeakerShape = field(default_factory=SpeakerShape)
    codec_training: CodecTraining = field(default_factory=CodecTraining)
    decoder_training: DecoderTraining = field(default_factory=DecoderTraining)
    talker_training: TalkerTraining = field(default_factory=TalkerTraining)
    # Our own voices, of the codec vocabulary, in the order of their ids.
    speakers: tuple[str, ...] = ("clara", "maeve", "hugo", "owen")
