"""OpenAI's ``GET /v1/models`` and ``GET /v1/models/{id}``: what is loaded; beside it the same in Deepgram's shape.

ElevenLabs' clients, which ask at the same path and bring their key in a header of their own, get theirs.
"""

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from codec.model import TtsModel
from daemon.answer import json
from daemon.elevenlabs import account as elevenlabs
from daemon.hub import Hub
from daemon.loading import Loaded
from daemon.names import loaded_model
from streaming.model import AsrModel


def models(hub: Hub, request: Request) -> Response:
    """Answer with the loaded models. An alias is found too; its ``root`` names the model behind it."""
    if "xi-api-key" in request.headers and not request.path_params:
        return elevenlabs.models(hub)
    loaded = hub.loaded()
    cards = [_card(loaded.hearing, "hearing")]
    if loaded.speaking is not None:
        cards.append(_card(loaded.speaking, "speaking"))
    asked: str | None = request.path_params.get("id")
    if asked is None:
        speaking = [] if loaded.speaking is None else [_deepgram_card(loaded.speaking)]
        hearing = {**_deepgram_card(loaded.hearing), "batch": True, "streaming": True, "formatted_output": True}
        return json({"object": "list", "data": cards, "stt": [hearing], "tts": speaking})
    name = loaded_model(asked, loaded, strict=hub.settings.strict)
    return json({**next(card for card in cards if card["id"] == name), "id": asked})


def _card(loaded: Loaded[AsrModel] | Loaded[TtsModel], does: str) -> dict[str, Any]:
    """A model in OpenAI's shape. ``does``, hearing or speaking, is a key of ours."""
    name, created = loaded.name, loaded.created
    return {"id": name, "object": "model", "created": created, "owned_by": "hearsay", "root": name, "does": does}


def _deepgram_card(loaded: Loaded[AsrModel] | Loaded[TtsModel]) -> dict[str, Any]:
    """A model in the shape of Deepgram's ``/v1/models``, whose SDK reads ``stt`` and ``tts``."""
    manifest = loaded.model.manifest
    return {
        "name": loaded.name,
        "canonical_name": loaded.name,
        "architecture": manifest.architecture,
        "languages": list(manifest.languages),
        "version": "1",
        "uuid": loaded.uuid,
    }
