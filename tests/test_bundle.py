"""The archive for machines without a network: made here, installed and run where there is none."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hearsay" / "wheels"
ALONE = ("unshare", *(() if os.geteuid() == 0 else ("-r",)), "-n", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh")
"""Runs a command in a network of its own: loopback and nothing else."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="networks of their own are Linux's"),
]


CONTAINED = """
mount --bind "$2" /opt; mount --bind "$3" /srv; mount --bind "$4" /usr/local; mount -t proc proc /proc
PYTHON=/usr/local/bin/python3 HOME=/root "$1/install.sh" /opt/hearsay >&2
mount -t tmpfs tmpfs /tmp; mount -o remount,bind,ro /opt; mount -o remount,bind,ro /
cd /; shift 4
exec setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs "$@"
"""
"""What the container is: Python as /usr/local, hearsay as /opt, a volume as /srv; read-only but /tmp, and no root."""


def run(*command: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """A command without a network, with nothing of this environment but the system's programs."""
    system = {"PATH": f"{Path(sys.base_prefix) / 'bin'}:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home)}
    return subprocess.run(
        [*ALONE, *command], capture_output=True, text=True, timeout=600, cwd=home, env=system | more, check=False
    )


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The unpacked archive."""
    folder = tmp_path_factory.mktemp("bundle")
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespaces here (unshare, ip)")
    making = [sys.executable, "-m", "tools.bundle", "--cache", str(CACHE), "--output", str(folder)]
    made = subprocess.run(making, cwd=ROOT, capture_output=True, text=True, timeout=1200, check=False)
    if "pip could not get every wheel" in made.stderr:
        pytest.skip("the wheels cannot be fetched here: no network")
    assert made.returncode == 0, made.stderr
    (archive,) = folder.glob("*.tar")
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    archive.unlink()
    return next(folder.glob("hearsay-*"))


def test_it_installs_and_runs_without_a_network(bundle: Path, tmp_path: Path) -> None:
    """``hearsay demo`` hears a recording, says it again, and hears that."""
    target = tmp_path / "opt" / "hear say"
    done = run(str(bundle / "install.sh"), str(target), home=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = run(str(target / "bin" / "hearsay"), "demo", home=tmp_path)
    assert shown.returncode == 0, shown.stderr
    assert "printed book" in shown.stdout
    again = run(str(bundle / "install.sh"), str(target), home=tmp_path)
    assert again.returncode == 1
    assert again.stderr == f"hearsay is not installed: {target} holds something already; name another directory.\n"


def test_what_does_not_fit_is_told_in_one_sentence(bundle: Path, tmp_path: Path) -> None:
    """Another Python, another processor, a file that was damaged on the way: nothing is written."""
    copy = tmp_path / "copy"
    shutil.copytree(bundle, copy, copy_function=os.link)
    target = tmp_path / "target"

    def refused(**more: str) -> str:
        done = run(str(copy / "install.sh"), str(target), home=tmp_path, **more)
        assert done.returncode == 1 and not target.exists()
        (line,) = done.stderr.splitlines()
        return line

    assert "/bin/false is not Python 3." in refused(PYTHON="/bin/false")
    (copy / "SHA256SUMS").unlink()
    (copy / "SHA256SUMS").write_text("0" * 64 + "  install.sh\n")
    assert "the archive is damaged" in refused()
    (copy / "cpu").unlink()
    (copy / "cpu").write_text("avx1024\n")
    assert "this processor has no avx1024" in refused()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make what a container is")
def test_the_container_runs_without_root_on_a_read_only_file_system(bundle: Path, tmp_path: Path) -> None:
    """Its entry point, its health check, its signal; there is no builder here to make the image with."""
    file = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")
    commands = {
        name: json.loads(found) for name, found in re.findall(r"(CMD|ENTRYPOINT) (\[.*\])$", file, re.MULTILINE)
    }
    (check,) = map(json.loads, re.findall(r"^HEALTHCHECK CMD (\[.*\])$", file, re.MULTILINE))
    (variables,) = re.findall(r"^ENV (.*)$", file, re.MULTILINE)
    environment = dict(pair.split("=") for pair in variables.split())
    assert re.search(r"^USER 10001:10001$", file, re.MULTILINE) and environment["HOME"] == "/data"
    opt, volume = tmp_path / "opt", tmp_path / "volume"
    opt.mkdir(), volume.mkdir()
    os.chown(volume, 10001, 10001)
    moved = {name: value.replace("/data", "/srv") for name, value in environment.items()}
    inner = f"""
    "$@" & daemon=$!
    for i in $(seq 300); do {shlex.join(check)} 2>/dev/null && break; kill -0 $daemon || exit 9; sleep 0.2; done
    {shlex.join(check)} && touch /srv/healthy && ! touch /opt/x 2>/dev/null && kill $daemon && wait $daemon
    """
    whole = ("unshare", "-mpf", "sh", "-ec", CONTAINED, "sh", str(bundle), str(opt), str(volume), sys.base_prefix)
    command = (*whole, "sh", "-c", inner, "sh", *commands["ENTRYPOINT"], *commands["CMD"])
    done = run(*command, home=tmp_path, HEARSAY_API_KEY="abcdefgh", LD_LIBRARY_PATH="/usr/local/lib", **moved)
    assert (done.returncode, (volume / "healthy").exists()) == (0, True), done.stderr
    assert "hearsay listens on http://0.0.0.0:8750" in done.stderr and "Traceback" not in done.stderr
