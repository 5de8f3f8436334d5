"""Every setting once: name, default, bounds, what it is for.

A setting comes from, later wins: its default, the TOML file (a flat table, keys as here), the environment
(``HEARSAY_`` + the name in capitals), a flag (``--`` + the name with dashes). ``docs/operations.md`` and
``docs/limits.md`` hold what ``table()`` writes; a test compares.
"""

import ipaddress
import logging
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast, get_type_hints

import msgspec

from engines import DEVICES

ENVIRONMENT_PREFIX = "HEARSAY_"

log = logging.getLogger("hearsay.config")

Value = str | int | float | bool | tuple[str, ...]

_KEY = re.compile(r"[A-Za-z0-9._~+-]{8,256}")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://([a-z0-9._-]+|\[[0-9a-f:]+\]|\*)(?::([0-9]{1,5}))?")
"""An origin as browsers write one (https://html.spec.whatwg.org/#ascii-serialisation-of-an-origin), or a scheme's."""
_DEFAULT_PORTS = {"http": "80", "https": "443"}
DOORS = ("deepgram", "openai", "elevenlabs", "whisper", "vosk", "twilio", "page")
"""Protocols that a daemon may leave out (``daemon/paths.py``)."""
_NO_BOUNDS = ("port", "wyoming_port", "audiosocket_port", "threads", "pauses")
"""Settings whose numbers bound nothing."""
_MISTYPED = 0.75
"""How like a setting's name a variable's must be to be taken for it; 1: the same."""
_SWITCHES = {"yes": True, "on": True, "no": False, "off": False}
"""Beside true, false, 1 and 0."""
_KINDS: Mapping[Any, str] = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a text", tuple[str, ...]: "a list of texts",
}  # fmt: skip


class ConfigError(ValueError):
    """A setting is unknown or outside its limits; the message names the setting, where it came from and the limit."""


def _setting(
    default: Value, help: str, *, low: float | None = None, high: float | None = None, choices: tuple[str, ...] = ()
) -> Any:
    metadata = {"help": help, "low": low, "high": high, "choices": choices}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a daemon runs with. Constructing one directly checks the values just the same."""

    host: str = _setting("127.0.0.1", "Address to listen on. Beyond loopback an `api_key` is required.")
    port: int = _setting(8750, "TCP port; 0 takes a free one, printed at start.", low=0, high=65535)
    wyoming_port: int = _setting(
        0, "TCP port of the Wyoming protocol (Home Assistant) on `host`; 0: none. It knows no key, so beyond loopback "
        "it needs `insecure`.", low=0, high=65535,
    )  # fmt: skip
    audiosocket_port: int = _setting(
        0, "TCP port of Asterisk's AudioSocket on `host`, without a key like Wyoming's; 0: none.",
        low=0, high=65535,
    )  # fmt: skip
    doors: tuple[str, ...] = _setting(DOORS, "Protocols that are spoken on `port`; the paths of others are 404.")
    asr_model: str = _setting(
        "auto", "Hearing model: a name (`hearsay models list`) or a directory; `auto`: the best that was pulled and "
        "that this machine keeps live, else pocket-asr-en."
    )  # fmt: skip
    aligner: str = _setting(
        "none", "Qwen3-ForcedAligner that tells the word times of finals: a name or a directory; `none`: the hearing "
        "model's own."
    )  # fmt: skip
    tts_model: str = _setting(
        "auto", "Speaking model: a name or a directory; `auto`: as for `asr_model`, else pocket-tts-en where it is "
        "installed; `none`: hear only."
    )  # fmt: skip
    lexicon: str = _setting(
        "", "File of your own pronunciations, a word and its IPA or respelling a line (`docs/speaking.md`), for "
        "speaking models that read sounds."
    )  # fmt: skip
    pauses: float = _setting(
        1.0, "Multiplies the pauses of what is spoken where a request does not (`docs/speaking.md`).", low=0, high=4
    )
    threads: int = _setting(
        0,
        "Threads that all model calls together compute on; 0: one for each CPU this process may use.",
        low=0,
        high=256,
    )
    device: str = _setting(
        "auto", "Where models are computed: `cuda`: an NVIDIA card; `dml`: graphs through DirectML; `auto`: what is "
        "installed decides (`hearsay doctor`).", choices=DEVICES,
    )  # fmt: skip
    sessions: int = _setting(
        32, "Live streams and file transcriptions at the same time, fewer where the machine would not keep them live; "
        "one more is refused with 429.", low=1, high=256,
    )  # fmt: skip
    speakers: int = _setting(
        16, "Texts being spoken at the same time, a `/v1/speak` stream each; one more is refused with 429.", low=1,
        high=256,
    )  # fmt: skip
    api_key: tuple[str, ...] = _setting(
        (), "Keys that open the daemon, any of them. Empty: no key is asked for. A flag shows in the process list; "
        "prefer the environment or the file."
    )  # fmt: skip
    key_in_query: bool = _setting(
        True, "Also take the key from `?api_key=` or `?token=`. It never reaches the log, but a proxy may record it."
    )
    insecure: bool = _setting(
        False, "Allow a `host` beyond loopback without an `api_key`, or with a `wyoming_port`, where none is asked for."
    )
    allowed_hosts: tuple[str, ...] = _setting(
        (), "Names accepted in the Host header beside localhost, the `host` setting and IP addresses; `*` accepts all."
    )
    allowed_origins: tuple[str, ...] = _setting(
        (), "Web origins (`https://example.org`, compared exactly; `moz-extension://*`: all of a scheme but http and "
        "https) whose pages may call. Callers without Origin pass."
    )  # fmt: skip
    tls_certificate: str = _setting("", "PEM file of the certificate chain; with `tls_key` the daemon speaks TLS.")
    tls_key: str = _setting("", "PEM file of the certificate's private key.")
    llm_url: str = _setting(
        "", "Base URL of the chat endpoint that answers in conversations of `/v1/realtime`, e.g. "
        "`http://127.0.0.1:8080/v1`. Empty: none."
    )  # fmt: skip
    llm_model: str = _setting("", "Name of the model asked for there. Empty: the one that the client names.")
    llm_key: str = _setting("", "Key sent there. Like `api_key` it is better given in the environment or the file.")
    strict: bool = _setting(
        False, "Refuse what is otherwise answered with a warning: unknown fields, `instructions` for a model that "
        "follows none, names of other servers' models and voices."
    )  # fmt: skip
    max_unheard_seconds: float = _setting(
        300.0, "Audio of one stream that arrived but is not heard yet, and at most 64 000 bytes for each second of it. "
        "Beyond: what arrived is finalised, error, close 1008.", low=1, high=3600,
    )  # fmt: skip
    max_outbound_bytes: int = _setting(
        1 << 20, "Messages of one stream that its client has not taken yet. Beyond: close 1013.", low=4096, high=1 << 26
    )
    send_timeout_seconds: float = _setting(
        20.0, "How long one message may wait for a client that does not read. Beyond: close 1013.", low=0.1, high=600
    )
    idle_seconds: float = _setting(
        60.0, "A stream that brings nothing (audio, text, KeepAlive) and has nothing to say, or an upload that stands "
        "still, ends after this (close 1011, 408).", low=0.5, high=86400,
    )  # fmt: skip
    max_session_seconds: float = _setting(
        14400.0,
        "Length of one stream by the clock (error, close 1008), and of one file's audio (400).",
        low=1,
        high=604800,
    )
    max_frame_bytes: int = _setting(1 << 20, "Largest WebSocket message. Beyond: close 1009.", low=1024, high=1 << 26)
    max_upload_bytes: int = _setting(256 << 20, "Largest request body. Beyond: 413.", low=1024, high=1 << 34)
    fetch_urls: str = _setting(
        "none", "Recordings that `POST /v1/listen` may fetch where a client sends `{\"url\": …}`: `none`; `public`: by "
        "http and https from public addresses; `any`: from private ones too.", choices=("none", "public", "any"),
    )  # fmt: skip
    callbacks: str = _setting(
        "none", "Addresses that a job may be told to (`callback`): `none`; `public`; `any`: private ones too.",
        choices=("none", "public", "any"),
    )  # fmt: skip
    max_text_characters: int = _setting(
        4096, "Text of one request to `/v1/audio/speech` or `POST /v1/speak`. Beyond: 400.", low=1, high=65536
    )
    max_connections: int = _setting(
        1024, "Open TCP connections, sessions or not. Beyond: a new one is reset.", low=8, high=1 << 16
    )
    stall_seconds: float = _setting(
        120.0,
        "While one call to the model takes longer, `/readyz` and new work get 503 stalled; a drain then cuts sessions.",
        low=1,
        high=86400,
    )
    drain_seconds: float = _setting(
        30.0,
        "After SIGTERM, how long live sessions may go on; then what arrived is worked off and they close with 1012.",
        low=0,
        high=86400,
    )
    ping_interval_seconds: float = _setting(20.0, "WebSocket keepalive: seconds between pings.", low=1, high=3600)
    ping_timeout_seconds: float = _setting(
        60.0, "WebSocket keepalive: seconds to wait for a pong. Beyond: close 1011.", low=1, high=3600
    )
    log_level: str = _setting(
        "warning", "What goes to stderr.", choices=("critical", "error", "warning", "info", "debug")
    )

    def __post_init__(self) -> None:
        for one in fields(self):
            _check(one.name, getattr(self, one.name), one.metadata)
        for key in self.api_key:
            if not _KEY.fullmatch(key):
                raise ConfigError(
                    "api_key: a key is 8 to 256 of A-Z a-z 0-9 . _ ~ + - (what fits every header it travels in)"
                )
        for door in self.doors:
            if door not in DOORS:
                raise ConfigError(f"doors: {door!r} is none of {', '.join(DOORS)}")
        for origin in self.allowed_origins:
            _check_origin(origin)
        if self.llm_url and not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", self.llm_url):
            raise ConfigError(f"llm_url: {self.llm_url!r} is not http://host:port/path or https://host/path")
        if not (self.llm_key.isascii() and self.llm_key.isprintable()):
            raise ConfigError("llm_key: holds what no header may")
        if bool(self.tls_certificate) != bool(self.tls_key):
            raise ConfigError("tls_certificate, tls_key: one is set without the other")
        if not self.loopback and not self.api_key and not self.insecure:
            raise ConfigError(
                f"host: {self.host} is reachable from other machines and no api_key is set. "
                f"Set {ENVIRONMENT_PREFIX}API_KEY, or say --insecure if anyone there may listen in"
            )
        taken = [self.port]
        for name, port in (("wyoming_port", self.wyoming_port), ("audiosocket_port", self.audiosocket_port)):
            if port and port in taken:
                raise ConfigError(f"{name}: {port} is the port of something else")
            if port and not self.loopback and not self.insecure:
                raise ConfigError(
                    f"{name}: {self.host} is reachable from other machines, and no key is asked for on it. "
                    "Say --insecure if anyone there may listen in"
                )
            taken.append(port)
        if self.audiosocket_port and not self.llm_url:
            raise ConfigError("audiosocket_port: callers are answered by way of a chat endpoint: set llm_url")

    @property
    def beside_connections(self) -> int:
        """Open connections to each port beside `port`."""
        return self.sessions + self.speakers + 16

    @property
    def loopback(self) -> bool:
        """Whether ``host`` is reachable from this machine only."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False


def load(
    file: Path | None = None, environment: Mapping[str, str] | None = None, flags: Mapping[str, object] | None = None
) -> Settings:
    """The settings of a daemon.

    Args:
        file: TOML file, or None.
        environment: the process's own by default.
        flags: by name of the setting; None values are flags that were not given. Strings are parsed, other values
            must already be of the setting's type.

    Raises:
        ConfigError: unreadable file, unknown name, a value of the wrong type or outside its limits.
    """
    values: dict[str, Value] = {}
    if file is not None:
        try:
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(f"{file} cannot be read: {error.strerror}") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{file}: {error}") from None
        for name, value in document.items():
            values[name] = _value(name, value, f"{file}: ")
    for variable, text in (os.environ if environment is None else environment).items():
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if not variable.startswith(ENVIRONMENT_PREFIX) or not text:
            continue
        if name in TYPES and variable.isupper():
            values[name] = _value(name, text, f"{variable}: ")
        # Other variables belong to clients or to Kubernetes.
        elif near := get_close_matches(name, TYPES, 1, _MISTYPED):
            log.warning("%s is no setting, %s%s is one", variable, ENVIRONMENT_PREFIX, near[0].upper())
    for name, value in (flags or {}).items():
        if value is not None and value != () and value != []:
            values[name] = _value(name, value, f"{flag(name)}: ")
    return Settings(**cast(dict[str, Any], values))


def flag(name: str) -> str:
    """The flag of a setting, ``--drain-seconds``."""
    return "--" + name.replace("_", "-")


def table(*, bounds: bool) -> str:
    """Settings as a Markdown table, one row each: those that bound something, for docs/limits.md, or all others."""
    rows = ["| setting | default | may be | |", "|---|---|---|---|"]
    for one in fields(Settings):
        low, high, choices = one.metadata["low"], one.metadata["high"], one.metadata["choices"]
        if bounds == (low is not None and one.name not in _NO_BOUNDS):
            may = ", ".join(choices) if low is None else f"{low}…{high}"
            rows.append(f"| `{one.name}` | {_shown(getattr(_DEFAULTS, one.name))} | {may} | {one.metadata['help']} |")
    return "\n".join(rows) + "\n"


def _shown(value: Value) -> str:
    if value == "" or value == ():
        return ""
    if isinstance(value, tuple):
        return f"`{','.join(value)}`"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _value(name: str, raw: object, where: str) -> Value:
    """``raw`` as the setting's type; text is parsed, a list in a text is comma-separated."""
    kind = TYPES.get(name)
    if kind is None:
        near = get_close_matches(name, TYPES)
        told = f"did you mean {' or '.join(near)}?" if near else "hearsay serve --help tells which there are"
        raise ConfigError(f"{where}{name}: no such setting; {told}")
    given: object = raw
    if isinstance(raw, str) and kind is bool:
        given = _SWITCHES.get(raw.lower(), raw)
    elif isinstance(raw, str) and kind not in (str, int, float):
        given = raw.split(",")
    try:
        value: Value = msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError:
        raise ConfigError(f"{where}{name}: {raw!r} is not {_KINDS[kind]}") from None
    return tuple(item.strip() for item in value if item.strip()) if isinstance(value, tuple) else value


def _check(name: str, value: object, metadata: Mapping[str, Any]) -> None:
    low, high, choices = metadata["low"], metadata["high"], metadata["choices"]
    # A comparison with NaN is false: it is refused too.
    if isinstance(value, int | float) and low is not None and not low <= value <= high:
        raise ConfigError(f"{name}: {value} lies outside {low}…{high}")
    if choices and value not in choices:
        raise ConfigError(f"{name}: {value!r} is none of {', '.join(choices)}")


def _check_origin(origin: str) -> None:
    """Refuse what no browser sends: such an origin would be allowed and match nothing."""
    match = _ORIGIN.fullmatch(origin)
    if match is None:
        raise ConfigError(
            f"allowed_origins: {origin!r} is not scheme://host or scheme://host:port, lower case, no path"
        )
    scheme, host, port = match.groups()
    if host == "*" and (scheme in _DEFAULT_PORTS or port is not None):
        raise ConfigError(
            f"allowed_origins: {origin!r}: a * stands for every page of a scheme other than http and https, alone"
        )
    if port is not None and port == _DEFAULT_PORTS.get(scheme):
        raise ConfigError(f"allowed_origins: {origin!r}: browsers leave :{port} out, as it is that of {scheme}")


TYPES: Mapping[str, Any] = get_type_hints(Settings)
"""Name of each setting → its type: str, int, float, bool or tuple[str, ...]."""

_DEFAULTS = Settings()
