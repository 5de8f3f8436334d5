"""hearsay serve: flags are the settings, one address, a clean end."""

import json
import signal
import urllib.request
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from subprocess import Popen

import pytest

from daemon.config import Settings, flag
from tests.commands.conftest import Run


def test_every_setting_is_a_flag(hearsay: Run):
    """The help knows each one; nothing else is settable but the file."""
    shown = hearsay("serve", "--help", COLUMNS="300").stdout
    for setting in fields(Settings):
        assert flag(setting.name) in shown, setting.name


def address(process: Popen[str]) -> str:
    """Where a starting daemon says that it is ready."""
    assert process.stderr is not None
    for line in process.stderr:
        if "is ready on" in line:
            return line.split(" on ")[1].split()[0]
    raise AssertionError(f"the daemon ended with {process.wait()}")


def test_it_says_where_it_is_ready_and_ends_cleanly(start: Callable[..., Popen[str]]):
    """Port 0 is any free one; SIGTERM and SIGINT end with exit code 0."""
    for number in (signal.SIGTERM, signal.SIGINT):
        process = start("serve", "--port", "0")
        url = address(process)
        with urllib.request.urlopen(f"{url}/v1/models", timeout=120) as answer:
            assert json.load(answer)["data"][0]["id"]
        process.send_signal(number)
        assert process.wait(120) == 0


def test_flags_win_over_environment_and_file(start: Callable[..., Popen[str]], environment: dict[str, str], tmp_path):
    """The file says one session, the environment two, the flag three."""
    file = tmp_path / "hearsay.toml"
    file.write_text("sessions = 1\nport = 0\n")
    environment["HEARSAY_SESSIONS"] = "2"
    process = start("serve", "--config", file, "--sessions", "3", "--no-key-in-query", "--tts-model", "none")
    with urllib.request.urlopen(f"{address(process)}/metrics", timeout=120) as answer:
        lines = answer.read().decode().splitlines()
    process.send_signal(signal.SIGTERM)
    assert process.wait(120) == 0
    assert any(line.endswith(" 3.0") and "capacity" in line for line in lines), lines


def test_a_model_that_is_not_there_ends_it(process: Run):
    """Exit code 2 and the reason."""
    done = process("serve", "--port", "0", "--asr-model", "no-such-model")
    assert done.returncode == 2
    assert "\nhearsay: model no-such-model: no model named 'no-such-model'" in done.stderr
    assert "Traceback" not in done.stderr


TLS = Path(__file__).parents[1] / "daemon" / "tls"


@pytest.mark.parametrize(
    ("certificate", "key", "says"),
    [
        ("missing.pem", "key.pem", "tls_certificate: {}/missing.pem cannot be read: No such file or directory"),
        ("certificate.pem", "missing.pem", "tls_key: {}/missing.pem cannot be read: No such file or directory"),
        ("certificate.pem", "certificate.pem", "certificate.pem are no certificate and its key"),
        ("key.pem", "key.pem", "key.pem are no certificate and its key"),
        ("certificate.pem", "encrypted.pem", "tls_key: {}/encrypted.pem is encrypted"),
    ],
)
def test_a_certificate_that_cannot_be_used_is_named(
    hearsay: Run, tmp_path: Path, certificate: str, key: str, says: str
):
    """One line and exit code 2, before a model is loaded."""
    for file in TLS.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / "encrypted.pem").write_text("-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    done = hearsay("serve", "--port", "0", "--tls-certificate", tmp_path / certificate, "--tls-key", tmp_path / key)
    assert done.returncode == 2
    assert says.format(tmp_path) in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
