"""The examples of the documents, as they are printed, in a folder that holds what they read."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
import soundfile

from commands.samples import sample

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/clients.md")
PRINTED = "http://127.0.0.1:8750"


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
