"""The web page in headless Chromium, a recording as its microphone."""

import base64
import json
import re
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chat_endpoint
import numpy as np
import pytest
import soundfile
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, WebSocket, expect, sync_playwright
from support import RATE, ROOT, Daemon, Speech, heard_as, running, words
from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
PATIENT = 60_000.0

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium")
expect.set_options(timeout=PATIENT)


@dataclass(slots=True)
class Visit:
    """An open page, and what it said and did."""

    page: Page
    faults: list[str] = field(default_factory=list[str])
    """What the console was told, and requests to anyone but the daemon."""
    sent: list[str] = field(default_factory=list[str])
    """Text frames of its WebSockets."""
    received: list[str | bytes] = field(default_factory=list[str | bytes])


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    with sync_playwright() as one:
        yield one


@pytest.fixture(scope="module")
def microphone(speech: Speech, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recording, then three seconds of nothing; it begins again and again."""
    pcm = np.frombuffer(speech.pcm, "<i2")
    path = tmp_path_factory.mktemp("microphone") / "speech.wav"
    soundfile.write(path, np.concatenate([np.zeros(RATE // 4, "<i2"), pcm, np.zeros(3 * RATE, "<i2")]), RATE)
    return path


@pytest.fixture(scope="module")
def browser(playwright: Playwright, microphone: Path) -> Iterator[Browser]:
    flags = [
        *FLAGS,
        "--use-fake-device-for-media-stream",
        "--use-fake-ui-for-media-stream",
        f"--use-file-for-fake-audio-capture={microphone}",
    ]
    one = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
    yield one
    one.close()


@pytest.fixture(scope="module")
def open_daemon(daemon: Daemon) -> Iterator[Daemon]:
    """One that asks for no key."""
    del daemon  # before ours: two that start together are slow to start
    with running(key="") as one:
        yield one


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Open the page of a daemon."""
    contexts: list[BrowserContext] = []
    visits: list[Visit] = []

    def go(daemon: Daemon) -> Visit:
        context = browser.new_context(accept_downloads=True)
        contexts.append(context)
        one = Visit(context.new_page())
        visits.append(one)

        def opened(ws: WebSocket) -> None:
            ws.on("framesent", lambda data: one.sent.append(data) if isinstance(data, str) else None)
            ws.on("framereceived", lambda data: one.received.append(data))

        one.page.set_default_timeout(PATIENT)
        one.page.on("websocket", opened)
        one.page.on("pageerror", lambda error: one.faults.append(str(error)))
        one.page.on("console", lambda message: one.faults.append(message.text))
        one.page.on("request", lambda request: _own(one, request.url, daemon))
        one.page.goto(daemon.url)
        return one

    yield go
    for one in contexts:
        one.close()
    # What Chromium itself tells of connections that fail is wanted here; what the page's code says is not.
    expected = re.compile("WebSocket|Failed to load resource")
    assert not [fault for one in visits for fault in one.faults if not expected.search(fault)]


def _own(one: Visit, url: str, daemon: Daemon) -> None:
    if not url.startswith((daemon.url, "blob:")):
        one.faults.append(f"a request to {url}")


def listen(page: Page) -> None:
    page.get_by_role("button", name="Listen").click()
    expect(page.get_by_role("button", name="Stop").first).to_be_enabled()


def said(page: Page) -> list[str]:
    """Words of the finished sentences."""
    return [word for line in page.locator("#said .line span").all_inner_texts() for word in words(line)]


def enough(page: Page, count: int) -> None:
    """Wait until that many words are final."""
    page.wait_for_function(
        "n => [...document.querySelectorAll('#said .line span')].flatMap(e => e.innerText.split(/\\s+/)).length >= n",
        arg=count,
    )


def test_captions_are_what_the_file_says(visit: Callable[..., Visit], open_daemon: Daemon, speech: Speech) -> None:
    """Interims in two inks, the level moves, latencies are shown, and three files can be saved."""
    one = visit(open_daemon)
    page, expected = one.page, words(speech.text)
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.locator("#models")).to_contain_text("pocket-asr-en")
    listen(page)
    expect(page.locator("#now .committed")).not_to_be_empty()
    expect(page.locator("#now .unstable")).not_to_be_empty()
    expect(page.locator("#level")).to_have_attribute("aria-valuenow", re.compile(r"[2-9]\d|100"))
    enough(page, len(expected))
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#state")).to_have_text("Ready")
    assert said(page)[: len(expected)] == expected
    lag = float(page.locator("#interim-lag").inner_text().split()[0])
    final = float(page.locator("#final-lag").inner_text().split()[0])
    assert 0 <= lag < 3 and 0 < final < 5
    text, srt, vtt = (saved(page, name) for name in ("Text", "SRT", "VTT"))
    assert words(text) == said(page)
    assert re.match(r"1\n\d\d:\d\d:\d\d,\d{3} --> \d\d:\d\d:\d\d,\d{3}\n\S", srt)
    assert re.match(r"WEBVTT\n\n\d\d:\d\d:\d\d\.\d{3} --> \d\d:\d\d:\d\d\.\d{3}\n\S", vtt)
    for subtitles in (srt, vtt):
        times = [float(s) + 60 * float(m) for m, s in re.findall(r":(\d\d):(\d\d[.,]\d+)", subtitles.replace(",", "."))]
        assert times == sorted(times)
        cues = re.sub(r"WEBVTT|^\d+$|.*-->.*", "", subtitles, flags=re.MULTILINE)
        assert words(cues) == said(page)


def saved(page: Page, name: str) -> str:
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    return download.value.path().read_text(encoding="utf-8")


def test_a_reload_keeps_what_was_said_and_typed(visit: Callable[..., Visit], open_daemon: Daemon) -> None:
    """And the next recording goes on after it, on one clock."""
    one = visit(open_daemon)
    page = one.page
    page.get_by_label("Speak while I type").uncheck()
    page.get_by_label("Text to speak").fill("Typed before.")
    listen(page)
    enough(page, 1)
    before = said(page)
    page.reload()
    expect(page.locator("#state")).to_have_text("Ready")
    assert said(page)[: len(before)] == before
    expect(page.get_by_label("Text to speak")).to_have_value("Typed before.")
    listen(page)
    enough(page, len(said(page)) + 1)
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#state")).to_have_text("Ready")
    page.get_by_role("button", name="Clear").click()
    assert not said(page)
    page.get_by_role("button", name="Undo").click()
    assert said(page)[: len(before)] == before


SHOWN = """() => {
  window.shown = {saying: [], spoken: []}
  for (const [id, texts] of Object.entries(shown)) {
    const element = document.getElementById(id)
    new MutationObserver(() => texts.push(element.textContent)).observe(element, {childList: true, characterData: true})
  }
}"""
"""Notes all that stood where the page tells what it says: it stands there while that sounds, and on a machine that is
busy nobody may have looked by then."""


def showed(page: Page, place: str, text: str) -> None:
    """Wait until ``text`` has stood there since ``SHOWN``."""
    page.wait_for_function("([id, text]) => shown[id].some((one) => one.includes(text))", arg=[place, text])


def test_it_speaks_while_someone_types(visit: Callable[..., Visit], open_daemon: Daemon) -> None:
    """Phrases go out as they are complete; sound comes before the sentence is; Escape silences at once."""
    one = visit(open_daemon)
    page = one.page
    expect(page.get_by_role("combobox", name="Voice")).to_be_enabled()
    box = page.get_by_label("Text to speak")
    page.evaluate(SHOWN)
    box.press_sequentially("The boats came home at nine, and the ", delay=15)
    expect(page.locator("#sound-lag")).to_contain_text(" s")
    showed(page, "saying", "Speaking")
    assert next(json.loads(frame)["text"] for frame in one.sent if "Speak" in frame) == "The boats came home at nine, "
    showed(page, "spoken", "boats came home")
    box.press_sequentially("tide went out again. And once more from the beginning, slowly.", delay=5)
    showed(page, "spoken", "tide")
    assert sum(len(frame) for frame in one.received if isinstance(frame, bytes)) > 24_000
    page.keyboard.press("Escape")
    expect(page.locator("#saying")).to_have_text("", timeout=2000)
    assert any("Clear" in frame for frame in one.sent)


def test_an_edit_of_what_was_said_goes_on_from_there(visit: Callable[..., Visit], open_daemon: Daemon) -> None:
    """Silence, then on from the word that changed, not from the beginning."""
    one = visit(open_daemon)
    page = one.page
    expect(page.get_by_role("combobox", name="Voice")).to_be_enabled()
    box = page.get_by_label("Text to speak")
    box.press_sequentially("Nine boats came home. ", delay=10)
    expect(page.locator("#sound-lag")).to_contain_text(" s")
    box.fill("Nine boats went home. ")
    while not any("went" in frame for frame in one.sent):
        page.wait_for_timeout(50)
    told = [json.loads(frame) for frame in one.sent if "Flush" not in frame]
    assert told[-2:] == [{"type": "Clear"}, {"type": "Speak", "text": "went home. "}]


def test_a_denied_microphone(playwright: Playwright, open_daemon: Daemon) -> None:
    """A sentence that helps; speaking still works."""
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, "--use-fake-device-for-media-stream"])
    page = browser.new_page()
    page.goto(open_daemon.url)
    page.get_by_role("button", name="Listen").click()
    expect(page.get_by_role("alert")).to_contain_text("Allow it for this page")
    expect(page.get_by_role("button", name="Listen")).to_be_enabled()
    page.get_by_label("Text to speak").fill("Still here.")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator("#sound-lag")).to_contain_text(" s")
    browser.close()


def test_a_wrong_key(visit: Callable[..., Visit], daemon: Daemon) -> None:
    """The page says so, takes another one, and works with it."""
    page = visit(daemon).page
    expect(page.get_by_role("alert")).to_contain_text("asks for a key")
    field = page.get_by_label("Key of this daemon")
    expect(field).to_be_focused()
    for wrong, sentence in (("short", "8 to 256"), ("a-wrong-key-of-ours", "The key is wrong")):
        field.fill(wrong)
        field.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text(sentence)
    listen_button = page.get_by_role("button", name="Listen")
    field.press("Escape")
    listen_button.click()
    expect(page.get_by_role("alert")).to_contain_text("The key is wrong")
    expect(listen_button).to_be_enabled()
    field.fill(daemon.key)
    field.press("Enter")
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.get_by_role("alert")).to_be_hidden()
    listen(page)
    enough(page, 1)


def test_a_refused_session(visit: Callable[..., Visit]) -> None:
    """All are taken: the sentence says so, and a later attempt goes well."""
    with running("--sessions", "1", "--speakers", "1", key="") as small:
        page = visit(small).page
        expect(page.locator("#state")).to_have_text("Ready")
        with connect(f"{small.socket_url}/v1/listen?encoding=linear16&sample_rate={RATE}", proxy=None):
            page.get_by_role("button", name="Listen").click()
            expect(page.get_by_role("alert")).to_contain_text("all 1 sessions are taken")
            expect(page.get_by_role("button", name="Listen")).to_be_enabled()
        listen(page)
        enough(page, 1)
        page.get_by_label("Speak while I type").uncheck()
        page.get_by_label("Text to speak").fill("Still here.")
        speak = page.get_by_role("button", name="Speak", exact=True)
        with connect(f"{small.socket_url}/v1/speak", proxy=None):
            speak.click()
            expect(page.get_by_role("alert")).to_contain_text("all 1 speakers are taken")
        speak.click()
        expect(page.locator("#sound-lag")).to_contain_text(" s")


def test_a_lost_daemon_loses_no_word(
    visit: Callable[..., Visit], serve: Callable[..., AbstractContextManager[Daemon]], speech: Speech
) -> None:
    """Killed within a sentence; what was said meanwhile is replayed to the one that comes after it."""
    expected = words(speech.text)
    port = str(free_port())
    with serve("--port", port, key="") as first:
        page = visit(first).page
        expect(page.locator("#state")).to_have_text("Ready")
        listen(page)
        expect(page.locator("#now .committed")).not_to_be_empty()
    expect(page.locator("#state")).to_have_text("Reconnecting")
    expect(page.get_by_role("alert")).to_contain_text("is kept")
    with serve("--port", port, key=""):
        expect(page.locator("#state")).to_have_text("Listening")
        expect(page.get_by_role("alert")).to_be_hidden()
        enough(page, len(expected))
        assert said(page)[: len(expected)] == expected
        page.get_by_role("button", name="Stop").first.click()
        expect(page.locator("#state")).to_have_text("Ready")


def test_the_keyboard_is_enough(visit: Callable[..., Visit], open_daemon: Daemon) -> None:
    """Every control is reached by Tab, shows that it has the focus, and has a name."""
    page = visit(open_daemon).page
    expect(page.get_by_role("combobox", name="Voice")).to_be_enabled()
    reached: list[str] = []
    for _ in range(20):
        page.keyboard.press("Tab")
        found = page.evaluate(
            """() => { const e = document.activeElement, s = getComputedStyle(e)
            return [e.id || e.tagName.toLowerCase(), s.outlineStyle, parseFloat(s.outlineWidth)] }"""
        )
        if found[0] == "body":
            break
        reached.append(found[0])
        assert found[1] != "none" and found[2] >= 2, found
    assert [name for name in reached if name != "microphone"] == [
        "speakers", "open", "listen", "captions", "text", "voice", "typing", "speak"
    ]  # fmt: skip
    page.locator("#listen").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#listen")).to_have_text("Stop")


def test_its_status_is_written_only_when_it_changes(visit: Callable[..., Visit], open_daemon: Daemon) -> None:
    """A screen reader says again what is written again; Stop does not flicker while it speaks."""
    page = visit(open_daemon).page
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.get_by_role("combobox", name="Voice")).to_be_enabled()
    page.evaluate(
        """() => { window.changes = []
        for (const id of ["state", "saying", "hush"]) new MutationObserver((all) => all.forEach(() =>
          window.changes.push([id, document.getElementById(id).textContent, document.getElementById(id).disabled])))
          .observe(document.getElementById(id), {childList: true, attributes: true, characterData: true, subtree: true})
        }"""
    )
    page.get_by_label("Speak while I type").uncheck()
    page.get_by_label("Text to speak").fill("The boats came home. And the tide went out.")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator("#saying")).to_have_text("Speaking")
    expect(page.locator("#saying")).to_have_text("")
    page.wait_for_timeout(1500)
    changes = page.evaluate("window.changes")
    assert [change[1] for change in changes if change[0] == "saying"] == ["Speaking", ""]
    assert [change[2] for change in changes if change[0] == "hush"] == [False, True]
    assert not [change for change in changes if change[0] == "state"]


def test_a_daemon_that_dies_is_told_soon(visit: Callable[..., Visit]) -> None:
    """Within two seconds, although nobody listens; and that it is back."""
    port = str(free_port())
    with running("--port", port, key="") as one:
        page = visit(one).page
        expect(page.locator("#state")).to_have_text("Ready")
    expect(page.locator("#state")).to_have_text("No daemon", timeout=2500)
    with running("--port", port, key=""):
        expect(page.locator("#state")).to_have_text("Ready")


def test_the_panel_of_the_key(visit: Callable[..., Visit], open_daemon: Daemon, daemon: Daemon) -> None:
    """It shows only where a key is needed, and closes by Escape and by a click elsewhere."""
    page = visit(open_daemon).page
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.locator("#access")).to_be_hidden()
    page = visit(daemon).page
    form, summary = page.locator("#key-form"), page.locator("#access summary")
    expect(form).to_be_visible()
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    expect(form).to_be_visible()
    page.locator("#captions").click()
    expect(form).to_be_hidden()


def test_a_dropped_recording_is_heard(
    visit: Callable[..., Visit], open_daemon: Daemon, speech: Speech, tmp_path: Path
) -> None:
    """By the file dialog and by dropping it; one clock for all; and the sound of both sides can be saved."""
    page, expected = visit(open_daemon).page, words(speech.text)
    expect(page.locator("#state")).to_have_text("Ready")
    page.locator("#file").set_input_files(str(speech.path))
    enough(page, len(expected))
    expect(page.locator("#state")).to_have_text("Ready")
    data = base64.b64encode(speech.path.read_bytes()).decode()
    transfer = page.evaluate_handle(
        """data => { const all = new DataTransfer(), bytes = Uint8Array.from(atob(data), c => c.charCodeAt())
        all.items.add(new File([bytes], "again.flac")); return all }""",
        data,
    )
    page.dispatch_event("#captions", "dragover", {"dataTransfer": transfer})
    expect(page.locator("#captions")).to_have_class(re.compile("target"))
    page.dispatch_event("#captions", "drop", {"dataTransfer": transfer})
    enough(page, 2 * len(expected))
    expect(page.locator("#state")).to_have_text("Ready")
    assert said(page) == expected * 2
    before = page.locator("#clock").inner_text()
    assert before != "0:00"
    listen(page)
    page.wait_for_timeout(2500)
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#state")).to_have_text("Ready")
    assert page.locator("#clock").inner_text() > before, "the clock goes on where the lines do"
    page.get_by_label("Text to speak").fill("Still here.")
    page.get_by_role("button", name="Speak", exact=True).click()
    expect(page.locator("#saying")).to_have_text("Speaking")
    expect(page.locator("#saying")).to_have_text("")
    for name, least in (("#save-heard", 2.0), ("#save-spoken", 0.3)):
        with page.expect_download() as download:
            page.locator(name).click()
        samples, rate = soundfile.read(download.value.path(), dtype="float32")
        assert len(samples) / rate > least and abs(samples).max() > 0.01


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two people in turns."""
    rows = [json.loads(line) for line in (ROOT / "tests/data/index.jsonl").read_text().splitlines()]
    parts, rate = list[np.ndarray[Any, np.dtype[np.float32]]](), 0
    for number in range(3):
        for name in ("ls777", "LJ"):
            mine = [row["file"] for row in rows if row["speaker"] == name and row["seconds"] > 2.5]
            samples, rate = soundfile.read(ROOT / "tests/data" / mine[number], dtype="float32")
            parts += [samples, np.zeros(rate, np.float32)]
    path = tmp_path_factory.mktemp("talk") / "talk.flac"
    soundfile.write(path, np.concatenate(parts), rate)
    return path


def test_who_speaks(visit: Callable[..., Visit], open_daemon: Daemon, talk: Path) -> None:
    """By letters, which can be named on the page; everything that is saved tells it, and so does a reload."""
    one = visit(open_daemon)
    page = one.page
    expect(page.locator("#state")).to_have_text("Ready")
    page.get_by_label("Who speaks").check()
    page.locator("#file").set_input_files(str(talk))
    expect(page.locator("#state")).to_have_text(re.compile("Hearing"))
    expect(page.locator("#state")).to_have_text("Ready")
    who = page.locator("#said .who").all_inner_texts()
    assert who[:4] == ["A:", "B:", "A:", "B:"] and set(who) == {"A:", "B:"}
    page.once("dialog", lambda dialog: dialog.accept("Linda & Co"))
    page.get_by_role("button", name="B:").first.click()
    assert page.locator("#said .who").all_inner_texts() == [{"B:": "Linda & Co:"}.get(name, name) for name in who]
    assert saved(page, "Text").splitlines()[1].startswith("Linda & Co: ")
    assert "\nLinda & Co: " in saved(page, "SRT") and "<v Linda &amp; Co>" in saved(page, "VTT")
    page.reload()
    expect(page.locator("#state")).to_have_text("Ready")
    expect(page.get_by_label("Who speaks")).to_be_checked()
    assert page.locator("#said .who").all_inner_texts()[1] == "Linda & Co:"
    with page.expect_websocket(lambda socket: "diarize=true" in socket.url):
        listen(page)
    page.get_by_role("button", name="Stop").first.click()
    expect(page.locator("#state")).to_have_text("Ready")


def test_a_conversation(visit: Callable[..., Visit], open_daemon: Daemon, speech: Speech) -> None:
    """With a chat endpoint the page talks, by WebRTC: what was heard and what is answered stand there, it says that it
    speaks, and hanging up ends it. Without one there is nothing to press."""
    expect(visit(open_daemon).page.get_by_role("button", name="Listen")).to_be_enabled()
    expect(visit(open_daemon).page.get_by_role("button", name="Talk")).to_be_hidden()
    with chat_endpoint.chat_endpoint() as (url, asked), running("--llm-url", url, key="") as partner:
        page = visit(partner).page
        page.get_by_role("button", name="Talk").click()
        expect(page.get_by_role("button", name="Listen")).to_be_disabled()
        page.wait_for_function("() => document.querySelector('#talked p:nth-child(2) span')?.textContent.length > 10")
        first, second = page.locator("#talked p:visible").all_inner_texts()[:2]
        assert first.startswith("You") and heard_as(first, speech.text) > 0.6
        assert second.startswith("hearsay") and asked
        expect(page.locator("#talking")).to_have_text("Speaking")
        page.get_by_role("button", name="Hang up").click()
        expect(page.get_by_role("button", name="Talk")).to_be_enabled()
        expect(page.get_by_role("button", name="Listen")).to_be_enabled()
        expect(page.locator("#notice")).to_be_hidden()
