"""The recipe of `pocket-tts-en`: shapes, data, optimisation.

Fields that exist in the official config.json carry its names; every other field has its unit in its comment or name.
Runs that are named here are those of notes/2026-11-speaking-runs.md.
"""

from dataclasses import dataclass, field

RATE = 24_000  # Everything in this package has so many samples a second.
FRAME = 1920  # A codec frame has so many samples, so 12.5 frames make a second.
FRAMES_AN_HOUR = 45_000
LABEL = 480  # A phone label has so many samples: 50 labels a second, four for each frame.
# Phone labels: what sounds alike in Kokoro's alphabet of phonemes has one number.
_SOUNDS = "A I OQo W Y ɑɒ æa ʌ əᵊɐ ɜ ɛe ɪᵻ i ɔ ʊ u ɹ ʤ ʧ ð θ ŋ ʃ ʒ ɡ h j Tɾ tʔ b d f k l m n p s v w z".split()
NUMBER = {letter: number for number, letters in enumerate(_SOUNDS, 1) for letter in letters}
SILENCE, UNKNOWN = 0, 255  # The latter is a label that no loss counts.
PHONES = 1 + len(_SOUNDS)


@dataclass(frozen=True)
class CodecShape:
    """The decoder (official names) and the encoder that only training needs. The decoder's is the shape that ships."""

    codebook_size: int = 1024
    num_quantizers: int = 8
    codebook_dim: int = 128  # The quantised sum has this width, and a codebook half of it.
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
    encoder_blocks: tuple[int, ...] = (3, 3, 3, 5)  # So many blocks work at 100, 50, 25 and 12.5 frames a second.


@dataclass(frozen=True)
class TalkerShape:
    """Talker, and predictor of the other codebooks (fields with `predictor_`): the shape that ships, but for the pieces
    of its text."""

    text_vocab_size: int = 1024
    text_hidden_size: int = 256
    hidden_size: int = 384
    intermediate_size: int = 1024
    num_hidden_layers: int = 6
    num_attention_heads: int = 6
    num_key_value_heads: int = 6
    head_dim: int = 64
    rope_theta: float = 10000.0
    rms_norm_eps: float = 1e-6
    control_ids: int = 32  # The codec vocabulary has so many rows after the codes of codebook 0.
    predictor_hidden_size: int = 192
    predictor_intermediate_size: int = 512
    predictor_num_hidden_layers: int = 4
    predictor_num_attention_heads: int = 3


@dataclass(frozen=True)
class SpeakerShape:
    """The speaker encoder (official names), narrower than the released one."""

    mel_dim: int = 128
    enc_channels: tuple[int, ...] = (256, 256, 256, 256, 512)
    enc_kernel_sizes: tuple[int, ...] = (5, 3, 3, 3, 1)
    enc_dilations: tuple[int, ...] = (1, 2, 3, 4, 1)
    enc_attention_channels: int = 64
    enc_res2net_scale: int = 8
    enc_se_channels: int = 64


@dataclass(frozen=True)
class CodecTraining:
    """How the codec's encoder is trained. The schedule follows the clock, because a machine is there for so long."""

    batch: int = 20  # A step has so many crops,
    frames: int = 80  # and a crop has so many frames.
    slice_frames: int = 25  # So many frames of each crop are decoded and compared.
    history_frames: int = 4  # So many are decoded before these and not compared, so that the decoder has a past.
    gain: float = 0.15  # Crops are played up to so much softer or louder, because every utterance has one level.
    unquantised_steps: int = 400  # So many steps go past the codebooks, and all others through them.
    mel_weight: float = 15.0  # It weighs the spectral distance, as in the first run with an ear.
    # It weighs square-root magnitudes within the spectral distance, which are what is loud.
    magnitude_weight: float = 1.5
    phone_weight: float = 2.0  # It weighs the phones, without which codebook 0 is hard to tell from text.
    commitment_weight: float = 0.5  # It keeps the encoder's output near the entries that stand for it.
    ear_weight: float = 6.0  # It weighs the distance to the hearing model's encoder; the first run with an ear had 8.
    recorded: float = 0.6  # Such a share of the crops is heard as other people's recordings sound.
    rate: float = 3e-4  # This is the rate for an encoder that has learnt; 6e-4 served one from nothing.
    warmup_steps: int = 200
    final_rate: float = 0.03  # The rate ends at so much of its peak.
    clip: float = 5.0
    seed: int = 1


@dataclass(frozen=True)
class DecoderTraining:
    """How the codec's decoder is trained on fixed codes, against discriminators. Fields not explained are those
    of CodecTraining."""

    batch: int = 10
    frames: int = 80
    slice_frames: int = 16
    history_frames: int = 4
    mel_weight: float = 15.0
    magnitude_weight: float = 0.5
    ear_weight: float = 8.0
    likeness_weight: float = 2.0  # It weighs distances between the discriminators' hidden layers.
    period_widths: tuple[int, ...] = (32, 64, 128, 256, 256)  # The layers that judge periods have so many channels.
    spectrum_width: int = 32  # Those that judge spectra have so many.
    rate: float = 2e-4  # The decoder and the discriminators have this rate; 3e-4 served a decoder that sounded worse.
    warmup_steps: int = 200
    final_rate: float = 0.03
    clip: float = 10.0
    seed: int = 1


@dataclass(frozen=True)
class TalkerTraining:
    """How talker and predictor are trained on codes: as in the run "from what shipped, with cloning"."""

    positions: int = 16384  # A step has so many positions, as in that run.
    lengths: tuple[int, ...] = (48, 72, 100, 140, 200, 320)  # The rows of each bucket have so many positions.
    predictor_frames: int = 6144  # The predictor learns from so many frames of a step.
    rate: float = 6e-4  # This is the rate for a talker that ships; 1e-3 serves one from nothing.
    # The speaker encoder's part of the rate: nothing in it keeps activations at one size, and at the whole rate its
    # vectors ran away within twenty steps.
    encoder_pace: float = 0.3
    warmup_steps: int = 200
    final_rate: float = 0.02
    dropout: float = 0.1
    cloned_rows: float = (
        0.5  # In such a share of the rows the speaker is heard in a recording; the others have our own voices.
    )
    narrow: float = 0.5  # Such a share of these recordings lacks its upper frequencies.
    code_noise: float = 0.03  # Such a share of input codes, in the mean, is replaced at random.
    # In such a share of the rows some frames hold the model's own likeliest codes: training on them mends a
    # third of what speaking loses against recorded codes.
    own_rows: float = 0.6
    own_first: float = 0.15  # Such a share of those frames takes codebook 0 from the talker too.
    own_steps: int = 2000  # The share grows from nothing to all over so many steps.
    guide_layer: int = 2
    guide_steps: int = 2000  # The diagonal guide of the attention decays over so many steps.
    weight_decay: float = 0.05
    clip: float = 1.0
    seed: int = 1


@dataclass(frozen=True)
class PracticeTraining:
    """How the talker learns from its own takes that judges chose."""

    lines: int = 3600  # A round has so many lines: their takes are said and judged in 70 s on an H200.
    # A line is said once at each pair of temperatures, of codebook 0 and of the other books: from what the runtime
    # draws at to where takes differ much and some of them still are the best ones.
    first_temperatures: tuple[float, ...] = (0.2, 0.2, 0.3, 0.4, 0.4, 0.5, 0.6, 0.7)
    rest_temperatures: tuple[float, ...] = (0.0, 0.3, 0.0, 0.4, 0.3, 0.5, 0.4, 0.5)
    tokens: int = 60  # Longer lines are left out: distillmos hears the first 7.7 s of a take.
    held_out: int = 420  # So many lines are never learnt from. They score each round, by all voices.
    # Lines that are as short as this, and questions, are drawn so many times as often: the former sounded worst, and
    # the latter seldom rose.
    short_words: int = 3
    often: float = 1.6
    # This voice says such a share of the questions beside its own, because it rose in the fewest of them.
    asker: str = "hugo"
    asker_share: float = 0.35
    frames: int = 6  # A take of no more frames than this is none.
    # Takes that are further from the line's median length are left out: they lack words, repeat them or stop in them.
    length: float = 0.12  # It is a share of that length,
    length_frames: int = 2  # and at least so many frames.
    least_takes: int = 3  # Of fewer takes than this none is typical, so none is chosen.
    natural_weight: float = 0.8  # It weighs distillmos, in points of 1 to 5.
    # It weighs nats that a take's text is less likely than in the line's best take, of which there are `heard_most`
    # at most: a point of naturalness is worth four nats.
    heard_weight: float = 0.2
    heard_most: float = 6.0
    # It weighs semitones of a question's rise within `rise_range`; more than that sounds excited.
    rise_weight: float = 0.35
    rise_range: tuple[float, float] = (-1.0, 4.0)
    least_rise: float = 2.0  # A question is not learnt from a take that rises by no more semitones than this.
    heard_loss: float = 1.5  # Nor is a line from one that is so many nats worse understood than its best one.
    clones: float = 1 / 3  # Beside each line so many takes by readers' voices are learnt, so that cloning stays.
    voices: int = 400  # So many recordings of readers give these voices.
    rounds: int = 3  # What the last rounds chose is learnt: more takes than one round has, none by a talker long gone.
    steps: int = 80  # A round has so many steps, which see a take of the last rounds two or three times.
    batch: int = 100_000  # So many tokens are said at once, the padding counted.
    positions: int = 20_000  # A step has so many positions.
    predictor_frames: int = 8192  # The predictor learns from so many frames of a step.
    rate: float = 2e-4  # It is a third of the rate with which recorded speech is learnt, as this talker speaks well.
    warmup_steps: int = 40
    final_rate: float = 0.25  # The last round's takes would otherwise be made for nothing.
    weight_decay: float = 0.01
    clip: float = 1.0
    seed: int = 9


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
    practice_training: PracticeTraining = field(default_factory=PracticeTraining)
    tokenizer_lines: int = 60_000  # The text's pieces are learnt from so many lines of the script.
    # Our own voices stand in the order of their ids in the codec vocabulary.
    speakers: tuple[str, ...] = ("clara", "maeve", "hugo", "owen")
