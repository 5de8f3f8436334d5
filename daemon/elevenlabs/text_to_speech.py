"""``POST /v1/text-to-speech/{id}`` and ``…/stream``, which speak a text and send the sound while it is made; and
``…/with-timestamps`` and ``…/stream/with-timestamps``, which send JSON with the times of characters.

The first two do the same: a client that wants the whole sound reads to the end.
"""

from typing import Any, Final

import msgspec
from starlette.types import Receive, Scope, Send

from daemon import body
from daemon.elevenlabs.alignment import Aligned, AlignedLines
from daemon.elevenlabs.request import options, queried, understood
from daemon.elevenlabs.stream_input import stream_input
from daemon.hub import Hub
from daemon.paths import TEXT_STREAM_TIMED, TEXT_TIMED, endpoint
from daemon.refusal import Refused
from daemon.spoken_file import MAX_BYTES, FileRequest, check_text, speak_file

_FRAMES: Final = {TEXT_TIMED: Aligned, TEXT_STREAM_TIMED: AlignedLines}
_decoder: Final = msgspec.json.Decoder(dict[str, Any])


async def text_to_speech(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the request, speak the text, and send the sound."""
    if scope["type"] == "websocket":
        await stream_input(hub, scope, receive, send)
        return
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST a JSON object with text", allow="POST")
    settings, model = hub.settings, hub.speaking_model().name
    query, form = queried(scope["query_string"], model, strict=settings.strict)
    data = await body.whole(scope, receive, settings, MAX_BYTES, "a text of max_text_characters fits")
    asked, found = understood(body.decoded(data, _decoder), strict=settings.strict)
    check_text("text", asked.text, settings)
    place = endpoint(scope["path"])
    frame = _FRAMES.get(place)
    voice, timed = scope["path_params"]["id"], frame is not None
    chosen = options(asked, voice, query, form.rate, model, strict=settings.strict, word_times=timed)
    warnings = (*query.warnings, *found.warnings)
    request = FileRequest(asked.text, "text", chosen, form.encoder, form.media_type, frame, warnings=warnings)
    await speak_file(hub, place.path, request, receive, send)
