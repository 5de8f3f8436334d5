"""The answer to Wyoming's ``describe``: the loaded models, their languages, the voices."""

from importlib.metadata import version
from typing import Any, Final

from wyoming.event import Event
from wyoming.info import AsrModel, AsrProgram, Attribution, Info, TtsProgram, TtsVoice, TtsVoiceSpeaker

from codec.voices import VoiceInfo
from daemon.loading import Models

NAME: Final = "hearsay"

_OURS: Final = Attribution("hearsay", "")


def info(models: Models, voices: list[VoiceInfo]) -> Event:
    """The models that are loaded, with the voices of the speaking model."""
    hearing = models.hearing.model
    model = AsrModel(
        **_artifact(hearing.name, hearing.manifest.architecture), languages=list(hearing.manifest.languages)
    )
    asr = AsrProgram(
        **_artifact(NAME, "Streaming speech recognition"), models=[model], supports_transcript_streaming=True
    )
    if models.speaking is None:
        return Info(asr=[asr]).event()
    languages = list(models.speaking.model.manifest.languages)
    # Home Assistant shows voices, not speakers; both names mean the same one here.
    shown = [
        TtsVoice(**_artifact(one.id, one.name), languages=languages, speakers=[TtsVoiceSpeaker(one.id)])
        for one in voices
    ]
    tts = TtsProgram(**_artifact(NAME, "Streaming speech synthesis"), voices=shown, supports_synthesize_streaming=True)
    return Info(asr=[asr], tts=[tts]).event()


def _artifact(name: str, description: str) -> dict[str, Any]:
    told = {"name": name, "description": description, "attribution": _OURS}
    return {**told, "installed": True, "version": version("hearsay")}
