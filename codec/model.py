"""A loaded speaking model: weights once, sessions many."""

import secrets
import threading
from contextlib import closing
from pathlib import Path
from typing import Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from codec.clone import LONGEST_SECONDS, VoiceEncoder, check_reference
from codec.engine import Engine
from codec.options import SpeakOptions
from codec.sampling import Sampling
from codec.speaker import Speaker, Voicing
from codec.text.stream import spoken_text
from codec.voices import Reference, StoredVoice, Voices
from codec.work import Work
from engines import manifest as manifests
from engines.integrity import check
from engines.sessions import OptionError, Sessions

Floats = npt.NDArray[np.float32]

REFERENCE_SECONDS: Final = 15.0
"""Longest recording that goes in with its text."""

LANGUAGES: Final = {
    "chinese": "zh", "english": "en", "japanese": "ja", "korean": "ko", "german": "de", "french": "fr",
    "russian": "ru", "portuguese": "pt", "spanish": "es", "italian": "it",
}  # fmt: skip
"""The model family's own names of its languages."""


class TtsModel:
    """Weights, lanes and KV cache, shared by every speaker made here. Thread-safe."""

    def __init__(
        self,
        directory: Path,
        *,
        sessions: int = 16,
        threads: int | None = None,
        device: str = "auto",
        kv: Literal["f16", "f32"] = "f16",
        voices: Path | None = None,
    ) -> None:
        """Load the model directory ``directory`` and warm it.

        Args:
            sessions: most speakers at a time; each costs KV rows, no weights.
            threads: the thread budget of all model calls, None for the CPUs this process may use.
            device: auto, cpu, cuda or dml (``engines.device``).
            kv: type of the KV cache.
            voices: directory of stored voices, None for the user's own.

        Raises:
            ManifestError: the directory is no speaking model, or one of its files is missing, damaged or another's.
            GgufError, GraphError, ProviderError: the engines refuse it.
        """
        manifest = manifests.read_tts(directory)
        check(directory, manifest)
        self.manifest, self.directory, self.sessions = manifest, directory, sessions
        self.engine = Engine(manifest, directory, sessions=sessions, threads=threads, device=device, kv=kv)
        self.sample_rate, self.frame_samples = manifest.codec.sample_rate, manifest.codec.frame_samples
        self.voices = Voices(manifest, voices)
        self._voice_encoder: VoiceEncoder | None = None
        self._lock = threading.Lock()
        self._speakers = Sessions[Speaker, Work](sessions, Work)
        try:
            self._warm()
        except BaseException:
            self.close()
            raise

    @property
    def name(self) -> str:
        """The manifest's name."""
        return self.manifest.name

    @property
    def sampling(self) -> Sampling:
        """The model's own sampling."""
        return msgspec.convert(self.manifest.sampling, Sampling, from_attributes=True)

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
        )

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
        """
        self.voices.require_cloning(with_text=text is not None)
        heard = check_reference(samples, rate, REFERENCE_SECONDS if text is not None else LONGEST_SECONDS)
        encoder = self._encoder()
        embedding = encoder.embedding(heard, rate)
        if text is None:
            return self.voices.store(name, embedding)
        spoken = spoken_text(text, self.manifest.text, english=self.language(None) == "en")
        if not spoken:
            raise OptionError("text", "holds nothing that can be spoken")
        return self.voices.store(name, embedding, Reference(spoken, encoder.codes(heard, rate)))

    def _encoder(self) -> VoiceEncoder:
        with self._lock:
            if self._voice_encoder is None:
                engine = self.engine
                self._voice_encoder = VoiceEncoder(
                    self.manifest,
                    self.directory,
                    engine.codec_lane,
                    threads=engine.threads,
                    provider=engine.device.provider,
                )
            return self._voice_encoder

    def language(self, asked: str | None) -> str | None:
        """The language to speak, by ISO code: the one asked for, the model's only one, or None to let the model tell.

        Raises:
            OptionError: the model does not have it.
        """
        offered = self.manifest.languages
        if asked is None or asked.lower() == "auto":
            return offered[0] if len(offered) == 1 else None
        code = LANGUAGES.get(asked.lower(), asked.replace("_", "-").split("-")[0].lower())
        if code not in offered:
            raise OptionError("language", f"{self.name} speaks {', '.join(offered)}, not {asked[:80]!r}")
        return code

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

    def _warm(self) -> None:
        """Touch every page and shape that the first session would otherwise wait for. Counts as nobody's work."""
        options = SpeakOptions(seed=0)
        with closing(Speaker(self.engine, options, self._voicing(options), lambda _: None)) as speaker:
            speaker.warm()
