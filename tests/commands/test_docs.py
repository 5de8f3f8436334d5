"""The documents: what is generated of them, and their examples as they are printed."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import soundfile

from commands.samples import sample
from tools.docs import PARTS, brief, pages

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/clients.md")
PRINTED = "http://127.0.0.1:8750"
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")])
"""What a reader is given; ``notes/`` is the laboratory's."""
MOST_README_LINES = 90
MOST_WORDS_OF_ALL = 22_000


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of a page in a language."""
    return re.findall(
        rf"^```{language}\n(.*?)^```$", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Speech as the examples name it: raw, and a FLAC file."""
    samples, rate = soundfile.read(sample("demo").path, dtype="int16")
    (tmp_path / "speech.raw").write_bytes(samples.tobytes())
    soundfile.write(tmp_path / "talk.flac", samples, rate)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_python_examples_run(page: str, folder: Path, talking_url: str, environment: dict[str, str]) -> None:
    """What hears prints words of the recording, what speaks leaves audio."""
    scripts = blocks(page, "python")
    assert scripts
    for script in scripts:
        assert PRINTED in script
        code = script.replace(PRINTED, talking_url)
        run = [sys.executable, "-c", code]
        path = {**environment, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(run, capture_output=True, text=True, timeout=300, cwd=folder, env=path)
        assert done.returncode == 0, done.stderr
        if "AsyncSpeech" in script:
            spoken = (folder / "speech.raw").read_bytes()
            assert len(spoken) > 24_000 and len(spoken) % 2 == 0
        else:
            assert "printed book" in done.stdout


def test_requests_of_the_readme_are_answered(folder: Path, talking_url: str) -> None:
    """What curl sends for them: a form with a file, and JSON under the type of a form."""
    lines = [line for block in blocks("README.md", "bash") for line in block.splitlines() if line.startswith("curl ")]
    assert len(lines) == 2
    for line in lines:
        _, option, data, url, *output = shlex.split(line.replace(PRINTED, talking_url))
        if option == "-F":
            name, _, file = data.partition("=@")
            answer = httpx.post(url, files={name: (file, (folder / file).read_bytes())}, timeout=300)
            assert "printed book" in answer.json()["text"]
        else:
            kind = {"content-type": "application/x-www-form-urlencoded"}
            answer = httpx.post(url, content=data, headers=kind, timeout=300)
            assert output == ["-o", "evening.mp3"] and answer.headers["content-type"] == "audio/mpeg"
        assert answer.status_code == 200


def test_the_generated_parts_are_what_the_code_says() -> None:
    """`make docs` would change no page, and every part that it can write stands in one."""
    found = pages()
    for path, text in found.items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name} is out of date: make docs"
    assert {name for name in PARTS if f"<!-- generated: {name} -->" in "".join(found.values())} == PARTS.keys()


@pytest.mark.parametrize(
    ("docstring", "told"),
    [
        ("The lane: one thread that runs calls.\n\nMore of it.", "The lane: one thread that runs calls"),
        ("One sentence\nthat ends in the next line. Another.", "One sentence that ends in the next line"),
        ("Every ``setting`` once.", "Every setting once"),
        ("A " + "word " * 8 + "here: and then so many more of them, as nobody reads.", "A " + "word " * 8 + "here"),
        ("one " * 20 + "clause.", "one " * 20 + "clause"),
        ("", ""),
    ],
)
def test_what_is_said_about_a_file_is_its_first_clauses(docstring: str, told: str) -> None:
    """As many as have at most so many words; one that is longer by itself stays whole."""
    assert brief(docstring) == told


def anchors(path: Path) -> set[str]:
    """The anchors that a page's headings have on the web."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(path: Path) -> list[str]:
    """Targets of a page's links and pictures, those into the web left out; code is no link."""
    text = re.sub(r"^```.*?^```$|`[^`\n]*`", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return [target for target in re.findall(r"\]\(<?([^)>\s]+)>?\)", text) if not re.match(r"[a-z]+:", target)]


CARDS = [*(ROOT / "models").glob("*/README.md"), ROOT / "tests" / "data" / "README.md", ROOT / "training" / "README.md"]


@pytest.mark.parametrize(
    "page",
    [*DOCUMENTS, *sorted((ROOT / "notes").glob("*.md")), *sorted(CARDS)],
    ids=lambda page: page.relative_to(ROOT).as_posix(),
)
def test_links_lead_somewhere(page: Path) -> None:
    """To a file of the repository, and to a heading of it where one is named."""
    for target in links(page):
        file, _, anchor = target.partition("#")
        place = page.parent / file if file else page
        assert place.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in anchors(place), f"{page.name}: {target}"


def test_every_page_is_reached_from_the_readme() -> None:
    """And docs/ holds no picture that no page shows."""
    linked = {(ROOT / target).resolve() for target in links(ROOT / "README.md")}
    assert {path for path in DOCUMENTS if path.name != "README.md"} <= linked
    shown = {(page.parent / target).resolve() for page in DOCUMENTS for target in links(page)}
    assert {path for path in (ROOT / "docs").iterdir() if path.suffix != ".md"} <= shown


def test_the_documents_are_short() -> None:
    """A README of two screens, and all of them in an afternoon."""
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= MOST_README_LINES
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in DOCUMENTS) <= MOST_WORDS_OF_ALL
