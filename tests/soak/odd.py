"""What nobody in his senses sends: frames, queries, forms, bodies and events of no sense, and of next to none.

Half of them follow the protocols' own types, with odd values, and hold speech: what is refused at once, or heard as
silence, reaches little.
"""

import base64
import gzip
import itertools
import json
import random
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec

from daemon import vosk
from daemon.deepgram import agent_messages, listen_messages, speak_messages, speak_turns_messages, turns_messages
from daemon.deepgram.listen_query import HONOURED as LISTEN
from daemon.deepgram.recorded_query import HONOURED as RECORDED
from daemon.deepgram.speak_query import FILE_HONOURED
from daemon.deepgram.speak_query import HONOURED as SPEAK
from daemon.deepgram.turns_query import HONOURED as TURNS
from daemon.elevenlabs import stream_input
from daemon.elevenlabs.request import QUERY as SPOKEN
from daemon.openai.realtime import client_events
from daemon.telephone import twilio

HEADS: Final = (
    b"RIFF\xff\xff\xff\xffWAVEfmt ",
    b"fLaC",
    b"OggS",
    b"ID3\x04",
    b"\x1aE\xdf\xa3",
    b"\0\0\0\x1cftypisom",
    b"",
)
_WORDS: Final = (
    "", "x", "en", "multi", "true", "false", "0", "1", "-1", "2", "0.5", "1e999", "300", "8000", "16000", "48000",
    "linear16", "mulaw", "opus", "wav", "mp3", "hugo", "nova-3", "flux-alexis-en", "whisper-1", "default", "Kyoto",
    "Hm. The tide comes in at nine.", "\0", "é\U0001f600", "9" * 30, "root", "audio/pcm", "audio/pcmu", "server_vad",
    "semantic_vad", "realtime", "transcription", "auto", "none",
)  # fmt: skip
_KEYS: Final = (
    "type", "audio", "input", "output", "format", "rate", "transcription", "model", "language", "prompt", "voice",
    "turn_detection", "threshold", "silence_duration_ms", "eagerness", "instructions", "tools", "output_modalities",
    "speed", "max_output_tokens", "include", "keywords", "create_response", "interrupt_response", "conversation",
    "text", "voice_id", "response_format", "session", "expires_after", "anchor", "seconds", "url", "stream_format",
)  # fmt: skip
_TEXT: Final = "/v1/text-to-speech/owen"
_MIXES: Final = {
    "/v1/listen": LISTEN, "/v2/listen": TURNS, "/v1/speak": SPEAK, "/v2/speak": SPEAK,
    "/v1/realtime": frozenset({"intent", "model"}), "/v1/agent/converse": frozenset({"model"}),
    "/vosk": frozenset({"model"}), "/twilio/converse": frozenset({"model"}), "/twilio/hear": frozenset({"model"}),
    f"{_TEXT}/stream-input": SPOKEN.honoured, f"{_TEXT}/multi-stream-input": SPOKEN.honoured,
}  # fmt: skip
_PLAIN: Final = {
    "/v1/listen": (
        "encoding=linear16&sample_rate=16000", "encoding=float32&sample_rate=48000&channels=8",
        "encoding=mulaw&sample_rate=8000&interim_results=true&vad_events=true&utterance_end_ms=1000", "",
        "encoding=linear16&sample_rate=16000&channels=2&multichannel=true",
    ),
    "/v2/listen": ("encoding=linear16&sample_rate=16000&eager_eot_threshold=0.4", ""),
    "/v1/speak": ("seed=1&marks=true",), "/v2/speak": ("model=flux-alexis-en&seed=1",),
    "/v1/realtime": ("", "intent=transcription"), "/v1/agent/converse": ("",), "/vosk": ("",),
    "/twilio/converse": ("",), "/twilio/hear": ("",),
    f"{_TEXT}/stream-input": ("output_format=pcm_16000",),
    f"{_TEXT}/multi-stream-input": ("output_format=ulaw_8000&sync_alignment=true",),
}  # fmt: skip
_COMMANDS: Final[dict[str, Any]] = {
    "/v1/listen": listen_messages.Command, "/v2/listen": turns_messages.Command, "/v1/speak": speak_messages.Command,
    "/v2/speak": speak_turns_messages.Command, "/v1/realtime": client_events.Command,
    "/v1/agent/converse": agent_messages.Command, "/vosk": vosk.Command, "/twilio/converse": twilio.Incoming,
    "/twilio/hear": twilio.Incoming, f"{_TEXT}/stream-input": stream_input.Input,
    f"{_TEXT}/multi-stream-input": stream_input.Input,
}  # fmt: skip
SOCKETS: Final = tuple(_COMMANDS)
FORMS: Final = (
    "/v1/audio/transcriptions", "/v1/audio/voices", "/v1/speech-to-text", "/asr", "/detect-language", "/inference",
    "/v1/jobs", "/v1/audio/translations",
)  # fmt: skip
BODIES: Final = {
    "/v1/audio/speech": ("model", "input", "voice", "response_format", "speed", "instructions", "stream_format"),
    "/v1/realtime/client_secrets": ("session", "expires_after"),
    "/v1/speak": ("text",), "/v2/speak": ("text",), "/v1/listen": ("url",),
    **{f"{_TEXT}{end}": ("text", "voice_settings", "seed") for end in ("", "/stream", "/with-timestamps")},
    f"{_TEXT}/stream/with-timestamps": ("text", "language_code"), "/v1/audio/voices/combine": ("text",),
    "/dev/captioned_speech": ("input", "voice", "stream"), "/load": ("model",),
}  # fmt: skip
_FIELDS: Final = (
    "model", "language", "prompt", "response_format", "temperature", "stream", "timestamp_granularities[]", "file",
    "include[]", "chunking_strategy", "keywords[]", "name", "text", "audio_sample", "nonsense", "callback",
)  # fmt: skip
_ASKED: Final = {
    "response_format": ("json", "text", "srt", "vtt", "verbose_json", "diarized_json"), "stream": ("true", "false"),
    "timestamp_granularities[]": ("word", "segment"), "model": ("whisper-1", "x"), "language": ("en", "xx"),
    "include[]": ("logprobs",), "chunking_strategy": ("auto",),
}  # fmt: skip
PAGES: Final = (
    "/", "/page/page.js", "/page/x", "/v1/models", "/v1/models/whisper-1", "/v1/models/x", "/v1/audio/voices",
    "/v1/audio/voices/owen", "/v1/audio/voices/x", "/metrics", "/readyz", "/v1/realtime/calls", "/v1/listen",
    "/nothing", "/v1/voices", "/v2/voices", "/v1/voices/owen", "/v1/user", "/v1/user/subscription", "/healthz",
    "/v1/jobs", "/v1/jobs/x", *BODIES, *SOCKETS,
)  # fmt: skip
_OFFER: Final = """v=0
o=- 4611 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1
a=extmap-allow-mixed
a=msid-semantic: WMS 3c
m=audio 9 UDP/TLS/RTP/SAVPF 111 63 9 0 8 13 110 126
c=IN IP4 0.0.0.0
a=rtcp:9 IN IP4 0.0.0.0
a=candidate:1 1 udp 2122260223 192.0.2.7 50000 typ host generation 0
a=ice-ufrag:Xw2n
a=ice-pwd:U0ZpJ9hVQbLkq7Wm2f8yXn3c
a=ice-options:trickle
a=fingerprint:sha-256 19:95:D6:19:14:AC:0D:10:FF:3E:95:DE:A4:8D:C0:FA:93:D1:0B:C1:37:BC:E0:E7:98:B3:B9:41:7D:97:02:0F
a=setup:actpass
a=mid:0
a=extmap:1 urn:ietf:params:rtp-hdrext:ssrc-audio-level
a=extmap:4 urn:ietf:params:rtp-hdrext:sdes:mid
a=sendrecv
a=msid:3c 7d
a=rtcp-mux
a=rtpmap:111 opus/48000/2
a=rtcp-fb:111 transport-cc
a=fmtp:111 minptime=10;useinbandfec=1
a=rtpmap:63 red/48000/2
a=fmtp:63 111/111
a=rtpmap:9 G722/8000
a=rtpmap:0 PCMU/8000
a=rtpmap:8 PCMA/8000
a=rtpmap:13 CN/8000
a=rtpmap:110 telephone-event/48000
a=rtpmap:126 telephone-event/8000
a=ssrc:3735928559 cname:x
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=ice-ufrag:Xw2n
a=ice-pwd:U0ZpJ9hVQbLkq7Wm2f8yXn3c
a=fingerprint:sha-256 19:95:D6:19:14:AC:0D:10:FF:3E:95:DE:A4:8D:C0:FA:93:D1:0B:C1:37:BC:E0:E7:98:B3:B9:41:7D:97:02:0F
a=setup:actpass
a=mid:1
a=sctp-port:5000
a=max-message-size:262144"""
_FORMAT: Final = {"rate": 16000, "width": 2, "channels": 1}
_EVENTS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("describe", {}), ("ping", {"text": "x"}), ("transcribe", {"name": "x", "language": "en"}),
    ("audio-start", _FORMAT), ("audio-chunk", _FORMAT), ("audio-stop", {}),
    ("synthesize", {"text": "Hm.", "voice": {"name": "slt"}}), ("synthesize-start", {"voice": {"language": "en"}}),
    ("synthesize-chunk", {"text": "Hm. "}), ("synthesize-stop", {}), ("nonsense", {}),
)  # fmt: skip


class Odd:
    """A source of such things, the same for the same seed. ``pcm``: speech, linear16 at 16 kHz; ``file``: in a file."""

    def __init__(self, seed: int, pcm: bytes, file: bytes) -> None:
        self.chance: Final = random.Random(seed)
        self.jobs: Final = list[str]()
        """Ids of jobs that were taken."""
        self._pcm, self._file, self._place = pcm, file, 0

    def socket(self) -> tuple[str, str]:
        """Path of a WebSocket, and its query: one in three of any parameters."""
        path = self.chance.choice(SOCKETS)
        query = self._query(_MIXES[path]) if self.chance.random() < 0.3 else self.chance.choice(_PLAIN[path])
        return path, query

    def frame(self, path: str) -> str | bytes:
        """One message for a WebSocket at ``path``."""
        chance, kind = self.chance, self.chance.random()
        if path == "/v1/realtime" and chance.random() < 0.1:
            return self._asked()
        if kind < 0.2:
            return self._sound()
        if kind < 0.35:
            head = chance.choice(HEADS) if chance.random() < 0.1 else b""
            return head + chance.randbytes(chance.randrange(1, 400))
        commands = _COMMANDS[path if chance.random() < 0.9 else chance.choice(SOCKETS)]
        command = chance.choice(typing.get_args(commands) or (commands,))
        text = json.dumps(self._begun(path) if chance.random() < 0.05 else self._message(command))
        return self._bitten(text) if kind < 0.55 else text

    def _message(self, command: Any) -> dict[str, Any]:
        tag = command.__struct_config__.tag
        return ({} if tag is None else {"type": tag}) | self._fields(command)

    def _begun(self, path: str) -> dict[str, Any]:
        """What opens a stream whose first message says how it is to be served."""
        sound = {"encoding": self.chance.choice(("linear16", "mulaw", "x")), "sample_rate": 8000}
        return {
            "event": self.chance.choice(("start", "media", "stop", "connected")), "streamSid": "x",
            "start": {"customParameters": {"greeting": self._text()}}, "media": {"payload": self._text()},
            "type": "Settings", "agent": self._fields(agent_messages.Agent), "audio": {"input": sound},
            "config": self._fields(vosk.Config), "text": self._text(), "path": path,
        }  # fmt: skip

    def _asked(self) -> str:
        """Of a conversation: a large item, many references to it, an answer asked for, and taken back."""
        chance = self.chance
        item: dict[str, Any] = {"type": "message", "role": "user", "id": chance.choice(("a", "b"))}
        item["content"] = [{"type": "input_text", "text": chance.choice(_WORDS) * chance.choice((1, 1000, 20_000))}]
        references = [{"type": "item_reference", "id": "a"}] * chance.choice((1, 3, 600, 20_000))
        return json.dumps(
            chance.choice(
                (
                    {"type": "conversation.item.create", "item": item},
                    {"type": "response.create", "response": {"input": references}},
                    {"type": "response.create", "response": {"output_modalities": ["text"]}},
                    {"type": "response.create"},
                    {"type": "response.cancel"},
                    {"type": "response.cancel"},
                )
            )
        )

    def reply(self) -> tuple[bytes | Iterable[bytes] | None, str]:
        """What a chat endpoint sends, None for something of sense, and how it says that this is compressed."""
        chance = self.chance
        call = b'data: {"choices": [{"delta": {"tool_calls": [{"index": %d, "id": "x"}]}}]}\n\n'
        text = b'data: {"choices": [{"delta": {"content": "Hm. "}}]}\n\n'
        match chance.randrange(10):
            case 0:
                return gzip.compress(chance.choice((b"\n", text)) * (1 << 20)), chance.choice(("gzip", "br", ""))
            case 1:
                return itertools.repeat(chance.choice((b"\n" * 5000, b": x\n\n" * 500, text, b"x" * 9000))), ""
            case 2:
                return (call % n for n in itertools.count()), ""
            case 3:
                return chance.randbytes(2000), ""
            case 4:
                return self._bitten((text * 20).decode()).encode("utf-8", "replace"), ""
            case _:
                return None, ""

    def form(self) -> bytes:
        """A multipart form with the boundary X, more or less."""
        chance = self.chance
        parts: list[bytes] = []
        names = chance.sample(_FIELDS, chance.randrange(6))
        if plain := chance.random() < 0.3:  # a form that may be answered
            names = ["file", *chance.sample(sorted(_ASKED), chance.randrange(3))]
        for name in names:
            named = name == "file" if plain else chance.random() < 0.5
            file = f'; filename="{chance.choice(("a.wav", "../../x", ""))}"' if named else ""
            value = chance.choice(HEADS) + chance.randbytes(chance.randrange(200))
            if name == "file" and (plain or chance.random() < 0.5):
                value = self._file
            elif plain or chance.random() < 0.6:
                value = chance.choice(_ASKED.get(name, ("json", "true", "en", "xx", "", "1"))).encode()
            head = f'--X\r\nContent-Disposition: form-data; name="{name}"{file}\r\n\r\n'
            parts.append(head.encode() + value + b"\r\n")
        body = b"".join(parts) + b"--X--\r\n"
        return body if plain or chance.random() < 0.8 else body[: chance.randrange(len(body))]

    def page(self) -> tuple[str, str]:
        """A method, and a path that is read; sometimes that of a job, which waits, is heard or is over by then."""
        method = self.chance.choice(("GET", "GET", "HEAD", "DELETE", "PUT"))
        if self.jobs and self.chance.random() < 0.2:
            return method, f"/v1/jobs/{self.chance.choice(self.jobs[-20:])}"
        return method, self.chance.choice(PAGES)

    def form_type(self) -> str:
        """The content type of a form."""
        return "multipart/form-data; boundary=X" + self.chance.choice(("", "", "; charset=utf-7", "; boundary=Y"))

    def body(self) -> tuple[str, bytes, str]:
        """Path and query, body and content type of a POST that takes no form."""
        path = self.chance.choice(tuple(BODIES))
        mix = {"/v1/listen": RECORDED, "/v1/speak": FILE_HONOURED, "/v2/speak": FILE_HONOURED}.get(path)
        query = f"?{self._query(mix)}" if mix and self.chance.random() < 0.5 else ""
        if path == "/v1/listen" and self.chance.random() < 0.7:
            sound = self.chance.choice(HEADS) + self.chance.randbytes(self.chance.randrange(3000))
            return path + query, self._file if self.chance.random() < 0.3 else sound, "audio/wav"
        fields = {name: self._any(2) for name in BODIES[path] if self.chance.random() < 0.9}
        for name in ("text", "input"):
            # A long text takes as long to speak: base64, letter by letter, an hour of audio.
            if name in fields and (self.chance.random() < 0.7 or len(str(fields[name])) > 400):
                fields[name] = self.chance.choice(_WORDS)
        text = json.dumps(fields)
        text = self._bitten(text) if self.chance.random() < 0.3 else text
        return path + query, text.encode("utf-8", "surrogatepass"), "application/json"

    def wyoming(self) -> bytes:
        """An event of Wyoming's."""
        kind, data = self.chance.choice(_EVENTS)
        given: dict[str, Any] = {
            name: value if self.chance.random() < 0.9 else self._any(1) for name, value in data.items()
        }
        line: dict[str, Any] = {"type": kind, "data": given}
        payload = b""
        if kind == "audio-chunk" or self.chance.random() < 0.05:
            payload = self._sound() if self.chance.random() < 0.8 else self.chance.randbytes(self.chance.randrange(600))
            line["payload_length"] = len(payload)
        text = json.dumps(line)
        text = self._bitten(text) if self.chance.random() < 0.02 else text
        return text.encode("utf-8", "surrogatepass") + b"\n" + payload

    def call(self) -> bytes:
        """A frame of AudioSocket's, mostly of sound."""
        kind = 0x10 if self.chance.random() < 0.9 else self.chance.randrange(256)
        payload = self._sound() if self.chance.random() < 0.9 else b""
        size = len(payload) if self.chance.random() < 0.98 else self.chance.randrange(1 << 16)
        return bytes((kind,)) + size.to_bytes(2, "big") + payload

    def offer(self) -> bytes:
        """A browser's offer, more or less."""
        lines = _OFFER.splitlines()
        for _ in range(self.chance.randrange(4)):
            place = self.chance.randrange(len(lines))
            bitten = self._bitten(lines[place])
            lines[place : place + 1] = self.chance.choice(([], [lines[place]] * 2, [bitten], [lines[place], bitten]))
        return "\r\n".join([*lines, ""]).encode("utf-8", "replace")

    # ------------------------------------------------------------------------------------------- out of their parts

    def _query(self, names: Sequence[str] | frozenset[str]) -> str:
        some = self.chance.sample(sorted(names), min(len(names), self.chance.randrange(1, 5)))
        return urlencode([(name, self.chance.choice(_WORDS)) for name in some])

    def _fields(self, kind: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for field in msgspec.structs.fields(kind):
            if self.chance.random() < (0.95 if field.required else 0.4):
                found[field.encode_name] = self._value(field.type)
        return found

    def _value(self, kind: Any) -> Any:
        """Mostly of that type."""
        if self.chance.random() < 0.08:
            return self._any(1)
        origin, inner = typing.get_origin(kind), typing.get_args(kind)
        if origin in (types.UnionType, typing.Union):
            return self._value(self.chance.choice(inner))
        if origin is Literal:
            return self.chance.choice(inner)
        if origin is list:
            return [self._value(inner[0]) for _ in range(self.chance.randrange(3))]
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            tag = kind.__struct_config__.tag
            return self._fields(kind) if tag is None else {"type": tag, **self._fields(kind)}
        made = _MADE.get(kind)
        return made(self) if made is not None else self._any(2)

    def _sound(self) -> bytes:
        """The speech, piece by piece, now and then cut within a sample."""
        size = self.chance.choice((3200, 3200, 6400, 641))
        self._place = (self._place + size) % len(self._pcm)
        return self._pcm[self._place : self._place + size]

    def _text(self) -> str:
        if self.chance.random() < 0.2:
            sound = self._sound() if self.chance.random() < 0.7 else self.chance.randbytes(self.chance.randrange(600))
            return base64.b64encode(sound).decode()
        return self.chance.choice(_WORDS)

    def _any(self, deep: int) -> Any:
        kind = self.chance.randrange(8 if deep else 6)
        if kind < 6:
            choices: tuple[Any, ...] = (None, True, self.chance.randrange(-3, 70_000), self.chance.random() * 3)
            return choices[kind] if kind < 4 else self._text()
        if kind == 6:
            return [self._any(deep - 1) for _ in range(self.chance.randrange(3))]
        return {self.chance.choice(_KEYS): self._any(deep - 1) for _ in range(self.chance.randrange(4))}

    def _bitten(self, text: str) -> str:
        at = self.chance.randrange(len(text))
        bite = self.chance.choice(('"', "{", "null", "1e999", "\0", "é", "", "[" * 50, "\ud800"))
        return text[:at] + bite.encode("utf-8", "replace").decode() + text[at + 1 :]


_MADE: Final[dict[Any, Callable[[Odd], Any]]] = {
    str: Odd._text,
    int: lambda odd: odd.chance.choice((0, 1, -1, 300, 70_000, 2**63)),
    float: lambda odd: odd.chance.choice((0.0, 0.5, 1.0, -1.0, 9.0)),
    bool: lambda odd: odd.chance.random() < 0.5,
    type(None): lambda odd: None,
    msgspec.UnsetType: lambda odd: None,
    dict[str, Any]: lambda odd: {odd.chance.choice(_KEYS): odd._any(3) for _ in range(odd.chance.randrange(4))},
}
