"""Calls by WebRTC from headless Chromium, a recording as its microphone: OpenAI's agents unchanged, and by hand."""

import os
import re
import statistics
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import chat_endpoint
import httpx
import numpy as np
import pytest
import soundfile
from playwright.sync_api import BrowserContext, Page, sync_playwright
from support import NODE, RATE, Daemon, Speech, heard_as, took
from test_page import CHROMIUM, FLAGS

BUNDLE = NODE / "node_modules/@openai/agents-realtime/dist/bundle"
CALLS = int(os.environ.get("HEARSAY_CALLS", "2"))
"""How many call at once. A machine that is slow or busy takes no more than it keeps live."""
PAUSE = 7.0
"""Seconds between two times that the recording is said."""
LOUD = 0.02
"""The level above which something is heard."""
ADDED = "conversation.item.input_audio_transcription.completed"

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.skipif(not BUNDLE.is_dir(), reason="the packages of node are not installed"),
]


class Site(SimpleHTTPRequestHandler):
    """The page, and what it imports."""

    def translate_path(self, path: str) -> str:
        return str(Path(__file__).parent / "calls.html" if path == "/" else BUNDLE / Path(path).name)

    def guess_type(self, path: Any) -> str:
        return "text/html" if str(path).endswith(".html") else "text/javascript"

    def log_message(self, format: str, *args: Any) -> None:
        del format, args


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    """The site of somebody's page, which is not the daemon's."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def partner(
    origin: str, serve: Callable[..., AbstractContextManager[Daemon]], request: pytest.FixtureRequest
) -> Iterator[Daemon]:
    """A daemon whose chat endpoint answers at once: where that is asked for a story first, else with a sentence."""
    story = getattr(request, "param", "") == "story"
    with pytest.MonkeyPatch.context() as patch, chat_endpoint.chat_endpoint(story=story) as (url, _):
        patch.setattr(chat_endpoint, "TOKEN_SECONDS", 0)
        with serve("--llm-url", url, "--allowed-origins", origin, "--log-level", "info") as one:
            yield one


@pytest.fixture(scope="module")
def context(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """A browser that hears the recording again and again."""
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    pcm = np.frombuffer(speech.pcm, "<i2")
    soundfile.write(path, np.concatenate([np.zeros(RATE, "<i2"), pcm, np.zeros(round(PAUSE * RATE), "<i2")]), RATE)
    flags = [
        *FLAGS,
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={path}",
        "--autoplay-policy=no-user-gesture-required",
    ]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser.new_context()
        browser.close()


@pytest.fixture
def page(origin: str, context: BrowserContext) -> Iterator[Page]:
    """A page with nothing said yet."""
    one = context.new_page()
    one.goto(origin)
    one.wait_for_function("() => window.plain")
    yield one
    one.close()


def secret(daemon: Daemon) -> str:
    """A key for a page, as its server asks for it."""
    asked = httpx.post(
        f"{daemon.url}/v1/realtime/client_secrets",
        json={"session": {"type": "realtime"}},
        headers={"Authorization": f"Bearer {daemon.key}"},
        trust_env=False,
    )
    return asked.json()["value"]


def changes(levels: list[list[float]]) -> list[tuple[float, bool]]:
    """When a stream began to be heard, and when it ended: with the moment of the first loud or the last one."""
    found: list[tuple[float, bool]] = []
    last = -1e9
    for moment, level in levels:
        if level > LOUD:
            if moment - last > 1000:
                if last > 0:
                    found.append((last, False))
                found.append((moment, True))
            last = moment
    return [*found, (last, False)] if found else []


def times(told: dict[str, Any], kind: str) -> list[float]:
    return [moment for moment, event in told["events"] if event["type"] == kind]


@pytest.mark.parametrize("partner", ["story"], indirect=True)
def test_openais_agents_talk_by_webrtc(partner: Daemon, page: Page, speech: Speech) -> None:
    """A turn, a long answer, speech over it, a short answer; with a key that expires, from another origin."""
    page.evaluate("([url, key]) => agent(url, key)", [f"{partner.url}/v1/realtime/calls", secret(partner)])
    done = "() => told.events.filter(([, event]) => event.type === 'response.done').length >= 2"
    page.wait_for_function(done, timeout=120_000)
    page.wait_for_timeout(2_500)
    told = page.evaluate("() => told")
    history = page.evaluate("() => session.history.map((item) => [item.role, item.content[0]?.transcript])")
    assert not told["errors"] and not times(told, "error")
    connected = next(event for _, event in told["events"] if event["type"] == "connected")
    assert re.fullmatch(r"rtc_[\w-]+", connected["callId"])
    heard = [text for role, text in history if role == "user" and text]
    assert all(heard_as(text, speech.text) > 0.6 for text in heard[:2]), heard
    statuses = [event["response"]["status"] for _, event in told["events"] if event["type"] == "response.done"]
    assert statuses[:2] == ["cancelled", "completed"]
    said, sounded = changes(told["levels"]["microphone"]), changes(told["levels"]["speaker"])
    stopped, spoke_over = times(told, "input_audio_buffer.speech_stopped")[0], said[2][0]
    first = next(moment for moment, begins in sounded if begins and moment > stopped - 300)
    # It may have been between two sentences, and then said nothing more.
    ended = next(moment for moment, begins in sounded if not begins and moment > spoke_over - 1_000)
    fell_silent, cleared = max(ended, spoke_over), times(told, "output_audio_buffer.cleared")[0]
    took("WebRTC", "first sound after the turn's end", (first - stopped) / 1000)
    took("WebRTC", "first sound after the last of speech", (first - said[1][0]) / 1000)
    took("WebRTC", "silence after speech over it began", (fell_silent - spoke_over) / 1000)
    took("WebRTC", "sound taken back after speech over it began", (cleared - spoke_over) / 1000)
    assert first < stopped + 5_000 and fell_silent < spoke_over + 3_000


def test_several_call_at_once(partner: Daemon, page: Page, speech: Speech) -> None:
    """Without any SDK: each is heard and answered."""
    page.evaluate(
        "([url, key, length]) => Promise.all(Array.from({length}, () => plain(url, key)))",
        [f"{partner.url}/v1/realtime/calls", partner.key, CALLS],
    )
    page.wait_for_function(
        f"() => calls.every(({{events}}) => events.some(([, event]) => event.type === '{ADDED}')"
        " && events.some(([, event]) => event.type === 'output_audio_buffer.started'))",
        timeout=180_000,
    )
    calls = page.evaluate("() => calls.map(({events}) => ({events}))")
    lags: list[float] = []
    for told in calls:
        heard = next(event["transcript"] for _, event in told["events"] if event["type"] == ADDED)
        assert heard_as(heard, speech.text) > 0.6 and not times(told, "error")
        begun = times(told, "output_audio_buffer.started")[0]
        lags.append(begun - times(told, "input_audio_buffer.speech_stopped")[0])
    took(f"WebRTC, {CALLS} calls", "first sound after the turn's end, median", statistics.median(lags) / 1000)
    took(f"WebRTC, {CALLS} calls", "first sound after the turn's end, worst", max(lags) / 1000)
