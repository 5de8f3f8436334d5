"""``POST /v1/realtime/calls``: a session by WebRTC, whose sound goes as Opus and whose events go in a data channel.

The request brings an offer (SDP), alone or in a form with a session, and gets the answer. The call goes on after it.
"""

import base64
import re
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from daemon import body
from daemon.answer import in_time
from daemon.hub import Hub
from daemon.openai.realtime import server_events as wire
from daemon.openai.realtime.call import Call
from daemon.openai.realtime.config import Config
from daemon.openai.realtime.output_audio import OutputAudio
from daemon.openai.realtime.secrets import configured
from daemon.openai.realtime.session import asked
from daemon.paths import CALLS, WEBRTC
from daemon.refusal import Refused

if TYPE_CHECKING:
    from daemon.peer import Peer

_MOST_BYTES: Final = 1 << 18
"""Bytes of a request's body: room for a session with its instructions and tools."""
_MOST_OFFER: Final = 1 << 14
"""Bytes of an offer. Browsers' have 2 to 6 KiB; reading one takes time that grows with its square."""
_LINE_ENDS: Final = re.compile(r"\r?\n")
_NOT_TRIED: Final = ("a=candidate:", "a=end-of-candidates", "a=remote-candidates:")
"""What begins lines of an offer that say where its sender may be."""
_session: Final = msgspec.json.Decoder(dict[str, Any])


async def calls(hub: Hub, scope: Scope, receive: Receive, send: Send) -> None:
    """Read the offer, begin the call, and answer."""
    if scope["method"] != "POST":
        raise Refused(405, "method", "POST an offer (SDP), or a form with sdp and session", allow="POST")
    kind = await hub.run(_peer)
    offer, session = await _brought(hub, scope, receive)
    config = await configured(hub, asked(hub, scope), session)
    async with AsyncExitStack() as held:
        await held.enter_async_context(hub.slot(WEBRTC))
        call = CallStream(hub, config, kind)
        held.push_async_callback(call.peer.close)
        try:
            answer = await call.peer.answer(offer)
        except Exception as error:  # aiortc takes for granted that an offer is one.
            told = f"{type(error).__name__} {error}"[:200]
            raise body.wrong("sdp", f"sdp: no offer that can be answered: {told}") from None
        hub.begin(call.course(held.pop_all()))
    headers = {"location": f"{CALLS.path}/{call.id}"}
    async with in_time(hub):
        await Response(answer, 201, headers, "application/sdp")(scope, receive, send)


def _peer() -> "type[Peer]":
    """In a thread: importing it takes half a second.

    Raises:
        Refused: 501, it is not installed.
    """
    try:
        from daemon.peer import Peer
    except ImportError as error:
        told = f"WebRTC calls need more packages ({error.name} is missing): pip install 'hearsay[webrtc]'"
        raise Refused(501, "not_installed", told) from None
    return Peer


async def _brought(hub: Hub, scope: Scope, receive: Receive) -> tuple[str, dict[str, Any]]:
    """The offer and the session that a request brings."""
    session: dict[str, Any] = {}
    if Request(scope).headers.get("content-type", "").lower().startswith("multipart/"):
        found = await body.form(scope, receive, hub.settings, _MOST_BYTES, "an offer and a session", ())
        try:
            offer, given = [await _text(found.get(name)) for name in ("sdp", "session")]
        finally:
            await found.close()
        if given:
            session = body.decoded(given, _session)
    else:
        offer = await body.whole(scope, receive, hub.settings, _MOST_BYTES, "an offer")
    return _checked(offer.decode("utf-8", "replace")), session


async def _text(field: str | UploadFile | None) -> bytes:
    """What a field of a form holds; browsers send a ``Blob`` as a file."""
    return await field.read() if isinstance(field, UploadFile) else (field or "").encode()


def _checked(offer: str) -> str:
    """An offer without its candidates.

    Raises:
        Refused: 400, it is too long, or does not offer what a call has.
    """
    if len(offer) > _MOST_OFFER:
        raise body.wrong("sdp", f"sdp: {len(offer)} characters, the limit is {_MOST_OFFER}")
    lines = _LINE_ENDS.split(offer)
    media = sorted(line[2:].partition(" ")[0] for line in lines if line.startswith("m="))
    if media != ["application", "audio"]:
        told = ", ".join(media)[:80] or "nothing"
        raise body.wrong("sdp", f"sdp: a call has one audio and one data channel; this offers {told}")
    if not any(line.startswith("a=fingerprint:") for line in lines):
        raise body.wrong("sdp", "sdp: a=fingerprint is missing")
    mids = sorted({line[6:].strip() for line in lines if line.startswith("a=mid:")})
    bundle = next((line for line in lines if line.startswith("a=group:BUNDLE")), "").split()[1:]
    if len(mids) != 2 or sorted(bundle) != mids:
        raise body.wrong("sdp", "sdp: a=group:BUNDLE must name the a=mid of both media")
    return "\r\n".join(line for line in lines if not line.startswith(_NOT_TRIED))


class CallStream(Call):
    """One call."""

    def __init__(self, hub: Hub, config: Config, peer: "type[Peer]") -> None:
        self.peer: Final = peer(hub.settings.max_frame_bytes, self._drained, self._forgotten)
        super().__init__(hub, config, peer.heard, peer.spoken, self.peer.receive, self.peer.send)
        self.id: Final = f"rtc_{self._id}"
        self.voice = OutputAudio(hub, self.peer.sounds)
        self._playing = self._whole = ""
        """The id of the response that is played, and that of the last one of which all sound was made."""

    async def course(self, held: AsyncExitStack) -> None:
        """Run the call to its end, and give back what it holds."""
        self._held.push_async_callback(held.aclose)
        await self.run(None)

    @property
    def _last_sign(self) -> float:
        return self._alive_at if self.peer.hears else time.monotonic()

    def tell(self, event: wire.Event, *, owed: bool = False) -> None:
        """Send an event, and after it what only a call has."""
        super().tell(event, owed=owed)
        if isinstance(event, wire.AudioDone):
            self._whole = event.response_id
            if not self.peer.sounds.waiting:
                self._drained()

    def tell_sound(self, event: wire.AudioDelta) -> None:
        """Play sound, as long as nobody interrupts."""
        if self._playing != event.response_id:
            self._playing = event.response_id
            self.tell(wire.PlaybackStarted(response_id=self._playing))
        self.peer.sounds.put_sound(base64.b64decode(event.delta))

    def _drained(self) -> None:
        if self._playing and self._playing == self._whole:
            self.tell(wire.PlaybackStopped(response_id=self._playing))
            self._playing = ""

    def _forgotten(self) -> None:
        if self._playing:
            self.tell(wire.PlaybackCleared(response_id=self._playing))
            self._playing = ""
