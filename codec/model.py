"""A loaded speaking model: weights once, sessions many."""

import secrets
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from codec.clone import LONGEST_SECONDS, VoiceEncoder, check_reference
from codec.engine import Engine
from codec.languages import language_of
from codec.options import SpeakOptions
from codec.readings import readings
from codec.sampling import Sampling
from codec.sounds.lexicon import Lexicon, takes_none
from codec.sounds.speller import Speller
from codec.speaker import Speaker, Voicing
from codec.text.stream import spoken_text
from codec.voices import Reference, StoredVoice, Voices
from codec.work import Work
from engines import manifest as manifests
from engines.integrity import check
from engines.sessions import OptionError, Sessions

Floats = npt.NDArray[np.float32]

REFERENCE_SECONDS: Final = 15.0
"""The longest recording whose codes go before the text: with them and the text a sequence of the talker is full."""

WARM_FRAMES: Final = 12
"""How many frames are made and timed when the model warms up: about a second of speech."""


class TtsModel:
    """Weights, lane and KV cache, shared by every speaker made here. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int = 16,
        threads: int | None = None,
        device: str = "auto",
        kv: Literal["f16", "f32"] = "f16",
        voices: Path | None = None,
        lexicon: Lexicon | None = None,
        warm: bool = True,
    ) -> None:
        """Load the model directory ``directory`` and warm it.

        Args:
            sessions: most speakers at a time; each costs KV rows, no weights.
            threads: the thread budget of all model calls, None for the CPUs this process may use.
            device: auto, cpu, cuda or dml (``engines.device``).
            kv: type of the KV cache.
            voices: directory of stored voices, None for the user's own.
            lexicon: pronunciations of all sessions, before the model's dictionary and after a session's own.
            warm: False leaves that to :meth:`warm`, which a large model takes seconds for.

        Raises:
            ManifestError: the directory is no speaking model, or one of its files is missing, damaged or another's.
            GgufError, GraphError, ProviderError: the engines refuse it.
            OptionError: a lexicon for a model that reads letters.
        """
        manifest = manifests.read_tts(directory)
        if lexicon is not None and manifest.text.sounds is None:
            raise takes_none(manifest.name)
        check(directory, manifest)
        self.manifest, self.directory, self.sessions = manifest, directory, sessions
        self.engine = Engine(manifest, directory, sessions=sessions, threads=threads, device=device, kv=kv)
        self.sampling = msgspec.convert(manifest.sampling, Sampling, from_attributes=True)
        """The model's own sampling."""
        self.sample_rate, self.frame_samples = manifest.codec.sample_rate, manifest.codec.frame_samples
        self.voices = Voices(manifest, voices)
        self._lexicon = lexicon
        self._voice_encoder: VoiceEncoder | None = None
        self._lock = threading.Lock()
        self._speakers = Sessions[Speaker, Work](sessions, Work)
        self.cost = 0.0
        """Seconds of this machine for a second of a voice, as it was when the model warmed up; 0 before."""
        self.warmed = False
        """Whether its pages are touched and its speed is known."""
        if warm:
            try:
                self.warm()
            except BaseException:
                self.close()
                raise

    @property
    def name(self) -> str:
        """The manifest's name."""
        return self.manifest.name

    def speaker(self, options: SpeakOptions | None = None) -> Speaker:
        """A new session.

        Raises:
            Busy: ``sessions`` speakers are open.
            OptionError: the model cannot do what the options ask; names the option.
        """
        options = options or SpeakOptions()
        voicing = self._voicing(options)
        return self._speakers.open(lambda on_close: Speaker(self.engine, options, voicing, on_close))

    def _voicing(self, options: SpeakOptions) -> Voicing:
        voice = self.voices.find(options.voice)
        dialect = self.manifest.voices[voice].dialect if isinstance(voice, str) else None
        language = self.language(options.language)
        if options.instructions and not self.manifest.instructions:
            raise OptionError("instructions", f"{self.name} does not follow instructions")
        # A dialect's speaker overrides Chinese and "let the model tell" (modeling_qwen3_tts.py:2118-2122).
        spoken = dialect if dialect is not None and language in (None, "zh") else language
        english = (language or "") == "en"
        return Voicing(
            head=self.engine.prompt.head(voice, spoken, options.instructions),
            english=english and options.normalise,
            sampling=options.sampling or self.sampling,
            seed=options.seed if options.seed is not None else secrets.randbits(63),
            reference=voice.reference if isinstance(voice, StoredVoice) else None,
            speller=self._speller(options.lexicon),
            gain=self._gain(voice),
        )

    def _gain(self, voice: str | StoredVoice | None) -> float:
        """Decibels. A clone's are those of the presets in the mean: a model speaks about as loudly as anybody, however
        loud the recording was (notes/2026-11-speaking-runs.md)."""
        presets = self.manifest.voices
        if isinstance(voice, str):
            return presets[voice].gain
        return sum(preset.gain for preset in presets.values()) / len(presets) if presets else 0.0

    def _speller(self, lexicon: Lexicon | None) -> Speller | None:
        """A new session's, with its own pronunciations."""
        reader = self.engine.reader
        if reader is None:
            if lexicon is not None:
                raise takes_none(self.name)
            return None
        both = self._lexicon | lexicon if self._lexicon and lexicon else lexicon or self._lexicon
        return Speller(reader, self.manifest.text.marks, both)

    def clone(self, name: str, samples: Floats, rate: int, text: str | None = None) -> StoredVoice:
        """Store a voice made from a recording. Blocking: encodes.

        Args:
            name: its id from then on.
            samples: float32 mono at ``rate``, 1 to 30 s.
            text: what is said in them, up to 15 s: the voice then follows the recording more closely, but its sentences
                begin only when they are complete. Needs a model with a codec encoder.

        Raises:
            CannotClone: the model lacks the encoder.
            OptionError: an unusable name or recording; names the field.
            OSError: the disk takes no voice.
        """
        self.voices.require_cloning(with_text=text is not None)
        sound = check_reference(samples, rate, REFERENCE_SECONDS if text is not None else LONGEST_SECONDS)
        encoder = self._encoder()
        embedding = encoder.embedding(sound, rate)
        if text is None:
            return self.voices.store(name, embedding)
        english, speller = self.language(None) == "en", self._speller(None)
        if speller is None:
            spoken = spoken_text(text, self.manifest.text, english=english)
        else:
            pieces = readings(text, self.manifest.text, english=english, speller=speller).pieces
            spoken = "".join(f" {piece.sounds}" for piece in pieces if piece.sounds)
        if not spoken:
            raise OptionError("text", "holds nothing that can be spoken")
        return self.voices.store(name, embedding, Reference(spoken, encoder.codes(sound, rate)))

    def _encoder(self) -> VoiceEncoder:
        with self._lock:
            if self._voice_encoder is None:
                engine = self.engine
                self._voice_encoder = VoiceEncoder(
                    self.manifest,
                    self.directory,
                    engine.lane,
                    threads=engine.decoding_threads,
                    provider=engine.device.provider,
                )
            return self._voice_encoder

    def language(self, asked: str | None) -> str | None:
        """The language to speak, by ISO code: the one asked for, the model's only one, or None to let the model tell.

        Raises:
            OptionError: the model does not have it.
        """
        return language_of(self.manifest, asked)

    @property
    def live(self) -> int:
        """Open speakers."""
        return self._speakers.live

    @property
    def work(self) -> Work:
        """Counters of all speakers so far, closed ones included."""
        return self._speakers.work

    def close(self) -> None:
        """Close every speaker, then the engines. Idempotent."""
        self._speakers.close()
        self.engine.close()

    def warm(self) -> None:
        """Touch every page and shape that the first session would otherwise wait for, and see what a voice costs.
        Counts as nobody's work.

        Raises:
            Cancelled: the model is closed meanwhile.
        """
        options = SpeakOptions(seed=0)
        with closing(Speaker(self.engine, options, self._voicing(options), lambda _: None)) as speaker:
            speaker.warm()
            making, decoding = replace(self.engine.making), replace(self.engine.decoding)
            while speaker.work.frames < WARM_FRAMES and speaker.wait(0):
                speaker.step(buffered=float(WARM_FRAMES))
            parts = self.engine.making.since(making), self.engine.decoding.since(decoding)
            # Side by side the slower part sets the pace, but of a card both take their share.
            together = self.engine.lane.threads > 1 and not self.engine.device.card
            seconds = max(parts) if together else sum(parts)
            self.cost = seconds * self.engine.sample_rate / self.engine.frame_samples
        self.warmed = True
