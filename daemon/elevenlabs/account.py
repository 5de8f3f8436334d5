"""What ElevenLabs' clients ask for before they speak: voices, models and the user's account.

There are no accounts here and nothing is counted, so the numbers always tell that much is left.
"""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from codec.voices import VoiceInfo
from daemon.answer import in_time, json
from daemon.hub import Hub
from daemon.paths import SPEECH_VOICES_V2
from daemon.refusal import Refused

_ROOM: Final = 1_000_000_000
"""The number of characters that the account may have spoken, for clients that check whether any are left."""


async def voices(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with all voices, or with the one that is asked for."""
    if scope["method"] != "GET":
        raise Refused(405, "method", f"GET {scope['path']}", allow="GET")
    listed = await hub.run(hub.speaking_model().model.voices.listed)  # It reads the folder of stored voices.
    answer = _voices([_shown(voice) for voice in listed], scope)
    async with in_time(hub):
        await answer(scope, receive, send)


def _voices(found: list[dict[str, Any]], scope: Scope) -> Response:
    asked: str | None = scope["path_params"].get("id")
    if asked is not None:
        for voice in found:
            if voice["voice_id"] == asked.lower():
                return json(voice)
        raise Refused(404, "voice_not_found", f"voice: there is no {asked[:80]!r} here", param="voice_id")
    body: dict[str, Any] = {"voices": found}
    if scope["path"] == SPEECH_VOICES_V2.path:
        body |= {"has_more": False, "total_count": len(found), "next_page_token": None}
    return json(body)


def models(hub: Hub) -> Response:
    """Answer ``/v1/models`` in ElevenLabs' shape, which clients get that send a key as ElevenLabs' do."""
    loaded = hub.loaded()
    cards: list[dict[str, Any]] = []
    for one, speaks in ((loaded.speaking, True), (loaded.hearing, False)):
        if one is not None:
            languages = [{"language_id": code, "name": code} for code in one.model.manifest.languages]
            cards.append({
                "model_id": one.name, "name": one.name, "can_do_text_to_speech": speaks,
                "can_do_voice_conversion": False, "can_use_style": False, "can_use_speaker_boost": False,
                "serves_pro_voices": False, "can_be_finetuned": False, "languages": languages,
                "maximum_text_length_per_request": hub.settings.max_text_characters,
            })  # fmt: skip
    return json(cards)


def user(hub: Hub, request: Request) -> Response:
    """Answer ``/v1/user`` and ``/v1/user/subscription``."""
    del hub
    subscription = {
        "tier": "local", "status": "active", "character_count": 0, "character_limit": _ROOM,
        "can_extend_character_limit": False, "allowed_to_extend_character_limit": False, "voice_slots_used": 0,
        "voice_limit": _ROOM, "professional_voice_slots_used": 0, "professional_voice_limit": 0,
        "can_use_instant_voice_cloning": True, "can_use_professional_voice_cloning": False,
        "next_character_count_reset_unix": 0, "currency": "usd",
    }  # fmt: skip
    if request.url.path.endswith("/subscription"):
        return json(subscription)
    return json({"user_id": "local", "subscription": subscription, "is_new_user": False, "first_name": "hearsay"})


def _shown(voice: VoiceInfo) -> dict[str, Any]:
    category = "premade" if voice.kind == "preset" else "cloned"
    return {"voice_id": voice.id, "name": voice.name, "category": category, "labels": {}, "description": None}
