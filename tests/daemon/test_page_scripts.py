"""The page's own scripts against a daemon, in Node: what they tell where it says no, or not as asked."""

import json
import shutil
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from codec.events import Event
from codec.speaker import Speaker
from daemon.serve import Background

FOLDER = Path(__file__).parents[2] / "daemon" / "page"
NODE = ["node", "--experimental-websocket"]
WEBSOCKETS = (
    shutil.which("node") is not None
    and subprocess.run([*NODE, "-e", "WebSocket"], capture_output=True, check=False).returncode == 0
)
# Node is no part of what `make test` installs; the page itself runs in browsers.
pytestmark = pytest.mark.skipif(not WEBSOCKETS, reason="needs Node 20 or newer")

BROWSER = """
globalThis.sessionStorage = {getItem: () => null}
globalThis.document = {baseURI: process.argv[2]}
const told = (...what) => console.log(JSON.stringify(what))
setTimeout(() => process.exit(1), 60000)
"""
RECORDING = """
const sockets = []
globalThis.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols)
    if (sockets.push(this) !== 2) return
    Object.defineProperty(this, "onopen", {set() {}})  // a refusal, as a page sees it: it closes and never was open
    this.addEventListener("open", () => this.close())
  }
}
const {Hearing} = await import("./hearing.js")
const hearing = new Hearing(16000, 0, {
  interim() {}, final() {},
  connected() {
    told("connected")
    if (sockets.length === 1) sockets[0].close()
    else hearing.end()
  },
  lost(trouble) { told("lost", trouble?.message) },
  done(trouble) {
    told("done", trouble?.message)
    process.exit()
  },
})
hearing.push(new Int16Array(16000))
"""
SAYING = """
const {Saying} = await import("./saying.js")
globalThis.WebSocket = class extends WebSocket {
  constructor(url, protocols) {
    super(url, protocols)
    this.addEventListener("close", () => setTimeout(() => process.exit(), 1000))
  }
}
const playback = {rate: 24000, buffered: 0, play: () => [0, 1], clear() {}}
const saying = new Saying(playback, {
  sound: () => told("sound"), piece() {}, busy() {}, trouble: (trouble) => told("trouble", trouble?.message),
})
saying.speak(process.argv[3])
"""
Talk = Callable[..., AbstractContextManager[Background]]


@pytest.fixture
def told(tmp_path: Path) -> Callable[..., list[list[Any]]]:
    """What a script on the page of the daemon at an address tells."""
    for script in FOLDER.glob("*.js"):
        shutil.copy(script, tmp_path)
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def run(script: str, url: str, *arguments: str) -> list[list[Any]]:
        (tmp_path / "test.js").write_text(BROWSER + script)
        command = [*NODE, "--no-warnings", str(tmp_path / "test.js"), url, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


def test_a_recording_goes_on_after_a_refusal_that_has_passed(
    daemon: Background, told: Callable[..., list[list[Any]]]
) -> None:
    """The handshake fails, and the daemon that is asked why has a place again."""
    assert told(RECORDING, daemon.url) == [["connected"], ["lost", None], ["lost", None], ["connected"], ["done", None]]


def test_what_is_not_spoken_is_told(talk: Talk, told: Callable[..., list[list[Any]]]) -> None:
    """That an idle session ends is nobody's business."""
    with talk(idle_seconds=0.5) as background:
        wordless, spoken = told(SAYING, background.url, "!!!"), told(SAYING, background.url, "Hello.")
    assert wordless == [["trouble", "The daemon says: the text holds nothing that can be spoken."]]
    assert spoken[0] == ["sound"]
    assert all(" guard." in one[-1] for one in spoken[1:]), "random weights do not always end by themselves"


def test_a_fault_while_it_speaks_is_told(
    talk: Talk, told: Callable[..., list[list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first sound, too."""
    step, steps = Speaker.step, 0

    def failing(self: Speaker, buffered: float | None = None) -> list[Event]:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise ArithmeticError
        return step(self, buffered)

    monkeypatch.setattr(Speaker, "step", failing)
    with talk() as background:
        found = told(SAYING, background.url, "Good morning, and a good day to all of you who are listening to us here.")
    assert found == [["sound"], ["trouble", "The daemon says: the work failed: ArithmeticError."]]
