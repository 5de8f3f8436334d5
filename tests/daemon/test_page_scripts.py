"""The page's own scripts against a daemon, in Node: what they tell where it says no, or not as asked."""

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from daemon.serve import Background

FOLDER = Path(__file__).parents[2] / "daemon" / "page"
NODE = ["node", "--experimental-websocket"]
WEBSOCKETS = (
    shutil.which("node") is not None
    and subprocess.run([*NODE, "-e", "WebSocket"], capture_output=True, check=False).returncode == 0
)
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
