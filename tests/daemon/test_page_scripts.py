"""The page's own scripts against a daemon, in Node: what they tell where it says no, or not as asked."""

import json
import random
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
from daemon.subtitles import Layout, cues, srt, vtt
from engines.lane import Steps
from streaming.events import Transcript, Word
from tests.daemon.support import HTTP, Speech

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


TYPING = """
let now = 0, timers = []
globalThis.setTimeout = (call, wait = 0) => timers[timers.push({at: now + wait, call}) - 1]
globalThis.clearTimeout = (timer) => { timers = timers.filter((other) => other !== timer) }
performance.now = () => now
const passed = (milliseconds) => {
  const end = now + milliseconds
  for (let due; (due = timers.filter(({at}) => at <= end).sort((a, b) => a.at - b.at)[0]);) {
    clearTimeout(due)
    now = due.at
    due.call()
  }
  now = end
}
const {Saying} = await import("./saying.js")
const frames = []
globalThis.WebSocket = class {
  static OPEN = 1
  readyState = 0
  constructor() {
    setTimeout(() => {
      this.readyState = 1
      this.onopen()
    })
  }
  send(text) { frames.push([now, JSON.parse(text)]) }
}
const playback = {rate: 24000, buffered: 0, play: () => [0, 1], clear() {}}
const saying = new Saying(playback, {sound() {}, piece() {}, busy() {}, trouble() {}})
const text = process.argv[3]
for (let i = 1; i <= text.length; i++) {
  passed(20)
  saying.type(text.slice(0, i))
}
const typed = now
passed(1500)
for (const [at, frame] of frames) told(at - typed, frame)
process.exit()
"""


def typed(told: Callable[..., list[list[Any]]], text: str) -> tuple[list[str], float]:
    """The phrases that a text becomes that is typed at fifty letters a second, by a clock of the script's own, and how
    long after its last letter the last of them is said, in milliseconds."""
    frames = told(TYPING, "http://127.0.0.1:1", text)
    assert [frame["type"] for _, frame in frames] == ["Speak", "Flush"] * (len(frames) // 2)
    return [frame["text"].strip() for _, frame in frames if frame["type"] == "Speak"], frames[-1][0]


@pytest.mark.parametrize(
    ("text", "phrases", "after"),
    [
        ("Is it you?", ["Is it you?"], 0),
        ("What?!", ["What?"], -20),
        ("Wait! Who goes there, at this time of night", ["Wait!", "Who goes there, at this time of night"], 900),
        (
            "The boats came home at nine, and the tide. It cost 3.50 euros.",
            ["The boats came home at nine,", "and the tide.", "It cost 3.50 euros."],
            300,
        ),
        (
            "one two three four five six seven eight nine ten eleven twelve thirteen",
            ["one two three four five six seven eight nine ten", "eleven twelve thirteen"],
            900,
        ),
    ],
)
def test_what_is_typed_is_said_phrase_by_phrase(
    told: Callable[..., list[list[Any]]], text: str, phrases: list[str], after: float
) -> None:
    """Never word by word; a question is asked as soon as its mark is there, the rest after a short pause."""
    assert typed(told, text) == (phrases, after)


NAMES: dict[int | None, str] = {1: "Zoë & <Co>"}
CUES = """
const {readFileSync} = await import("node:fs")
const {Transcript} = await import("./transcript.js")
globalThis.sessionStorage.setItem = () => {}
for (const finals of JSON.parse(readFileSync(process.argv[3]))) {
  const transcript = new Transcript()
  transcript.kept = {finals, names: {1: "Zoë & <Co>"}}
  told(transcript.srt(), transcript.vtt())
}
process.exit()
"""


def test_its_subtitles_are_the_daemons(told: Callable[..., list[list[Any]]], tmp_path: Path) -> None:
    """Letter for letter, for a hundred made-up recordings, of half of which it is known who speaks."""
    how = random.Random(7)
    recordings: list[list[Transcript]] = []
    for number in range(100):
        finals, at = list[Transcript](), 0.0
        for _ in range(how.randrange(1, 6)):
            names = [
                "".join(how.choices("abcde.,&<é今天", k=how.randrange(1, 14))) for _ in range(how.randrange(1, 30))
            ]
            words = list[Word]()
            for name in names:
                end = round(at + how.uniform(0.05, 0.8), 3)
                speaker = how.choice([0, 0, 0, 1, 27]) if number % 2 else None
                words.append(Word(name, at, end, 1.0, speaker=speaker, speaker_name=NAMES.get(speaker)))
                at = round(end + how.choice([0.0, 0.05, 0.3, 2.0]), 3)
            text = how.choice([" ", ""]).join(names)
            finals.append(Transcript(words[0].start, at, text, tuple(words), len(words), "en", is_final=True))
        recordings.append(finals)
    shown = [
        [
            {
                "start": f.start,
                "end": f.end,
                "text": f.text,
                "words": [
                    {"text": w.text, "start": w.start, "end": w.end}
                    | ({} if w.speaker is None else {"speaker": w.speaker})
                    for w in f.words
                ],
            }
            for f in finals
        ]
        for finals in recordings
    ]
    (tmp_path / "finals").write_text(json.dumps(shown), encoding="utf-8")
    found = told(CUES, "http://127.0.0.1:1", str(tmp_path / "finals"))
    for (subrip, webvtt), finals in zip(found, recordings, strict=True):
        expected = cues(finals, Layout(), 0.0)
        # A name that is given on the page may be anything; one that the daemon knows is no mark.
        assert (subrip, webvtt.replace("&amp; &lt;Co&gt;", "& <Co>")) == (srt(expected), vtt(expected))


SPEAKERS = """
const {Transcript} = await import("./transcript.js")
const kept = {}
globalThis.sessionStorage = {getItem: (key) => kept[key] ?? null, setItem(key, text) { kept[key] = text }}
const transcript = new Transcript()
const say = (session, closes, ...parts) => {
  const words = parts.flatMap(([speaker, text, name]) => text.split(" ").map((text) => ({text, speaker, name})))
  transcript.add({start: 0, end: 1, text: words.map(({text}) => text).join(" "), words, closes, session})
}
const shown = () => told(...transcript.text().split("\\n").slice(0, -1))
say("one", true, [0, "Is it?"], [1, "It is."])
say("one", false, [0, "Then"])
say("one", true, [0, "let us go."])
say("two", true, [0, "Hello."], [3, "Good day.", "Ben"])
say("two", true, [undefined, "Nobody."])
shown()
transcript.named("one", 1, "Anna")
transcript.name(2, "Zoë")
transcript.named("two", 0, "Carl")
shown()
told(...transcript.merged("two", 0, 3))
say("two", true, [0, "Who is it?"])
shown()
say("three", true, [0, "One."], [1, "Two."])
transcript.named("three", 1, "Dora")
told(...transcript.merged("three", 1, 0))
shown()
const {finals, names} = new Transcript().kept
told(finals.length, names)
process.exit()
"""


def test_speakers_of_several_sessions(told: Callable[..., list[list[Any]]]) -> None:
    """Another session's first speaker is somebody else; names of the daemon give way to those of the page; who are one
    are told so; a reload keeps it."""
    first, named, merged, after, by_name, last, kept = told(SPEAKERS, "http://127.0.0.1:1")
    assert first == ["A: Is it?", "B: It is.", "A: Then let us go.", "C: Hello.", "Ben: Good day.", "Nobody."]
    assert named == ["A: Is it?", "Anna: It is.", "A: Then let us go.", "Zoë: Hello.", "Ben: Good day.", "Nobody."]
    assert merged == ["Zoë", "Ben"]
    assert after[3:] == ["Ben: Hello. Good day.", "Nobody.", "Ben: Who is it?"]
    assert by_name == ["Dora", "E"] and last[-1] == "Dora: One. Two."
    assert kept == [7, {"1": "Anna", "2": "Zoë", "3": "Ben", "4": "Dora", "5": "Dora"}]


UPLOAD = """
const {openAsBlob} = await import("node:fs")
const {hear} = await import("./upload.js")
const {Transcript} = await import("./transcript.js")
globalThis.sessionStorage.setItem = () => {}
const transcript = new Transcript()
const file = new File([await openAsBlob(process.argv[3])], "recording.opus")
try {
  await hear(file, 10, (final) => transcript.add(final))
  told(transcript.text(), transcript.finals[0].words[0].start >= 10, transcript.srt().includes("-->"))
} catch (error) {
  told(error.message)
}
process.exit()
"""


def test_a_file_is_heard(
    daemon: Background, speech: Speech, told: Callable[..., list[list[Any]]], tmp_path: Path
) -> None:
    """Sentence by sentence, later on the transcript's clock; what is no recording is a sentence."""
    ((text, later, subtitled),) = told(UPLOAD, daemon.url, str(speech.path))
    file = {"file": ("speech.opus", speech.path.read_bytes())}
    answer = HTTP.post(f"{daemon.url}/v1/audio/transcriptions", files=file).json()
    assert (" ".join(text.split()), later, subtitled) == (answer["text"], True, True)
    (tmp_path / "letter").write_text("Dear all, " * 99)
    ((message,),) = told(UPLOAD, daemon.url, str(tmp_path / "letter"))
    assert "no audio" in message


def test_a_recording_goes_on_after_a_refusal_that_has_passed(
    daemon: Background, told: Callable[..., list[list[Any]]]
) -> None:
    """The handshake fails, and the daemon that is asked why has a place again."""
    assert told(RECORDING, daemon.url) == [["connected"], ["lost", None], ["lost", None], ["connected"], ["done", None]]


def test_what_is_not_spoken_is_told(talk: Talk, told: Callable[..., list[list[Any]]]) -> None:
    """That an idle session ends is nobody's business."""
    with talk(idle_seconds=4) as background:  # more than a machine stands still
        wordless, spoken = told(SAYING, background.url, "!!!"), told(SAYING, background.url, "Hello.")
    assert wordless == [["trouble", "The daemon says: the text holds nothing that can be spoken."]]
    assert spoken[0] == ["sound"]
    assert all(" guard." in one[-1] for one in spoken[1:]), "random weights do not always end by themselves"


def test_a_fault_while_it_speaks_is_told(
    talk: Talk, told: Callable[..., list[list[Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first sound, too."""
    steps, sounded = Speaker.steps, False

    def failing(self: Speaker, buffered: float | None = None, *, hold: bool = False) -> Steps[list[Event]]:
        nonlocal sounded
        if sounded:
            raise ArithmeticError
        events = yield from steps(self, buffered, hold=hold)
        sounded = any(hasattr(event, "samples") for event in events)
        return events

    monkeypatch.setattr(Speaker, "steps", failing)
    with talk() as background:
        found = told(SAYING, background.url, "Good morning, and a good day to all of you who are listening to us here.")
    assert found == [["sound"], ["trouble", "The daemon says: the work failed: ArithmeticError."]]


@pytest.mark.parametrize("script", sorted(path.name for path in FOLDER.glob("*.js")))
def test_every_script_is_one(script: str) -> None:
    """One that is none takes the whole page down, and only a browser would tell."""
    source = (FOLDER / script).read_bytes()
    done = subprocess.run(["node", "--input-type=module", "--check"], input=source, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
