"""Install llama-cpp-python as pinned in requirements/runtime.txt, from a wheel kept in a cache directory.

The index has its source only. It compiles for two to three minutes on two cores, for this very CPU; so the wheel is
kept under a name that says Python, platform, the CPU's features and how it is built, and a machine compiles it
once. Run by the Makefile. tools/llama leaves out what nothing here calls, and adds faster products of q8_0.
"""

import argparse
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PACKAGE = "llama-cpp-python"
ADDED = Path(__file__).resolve().parent / "llama"
OPTIONS = ("-DLLAVA_BUILD=OFF",)
"""Options for llama-cpp-python's own build: it leaves out the library for pictures."""
INCLUDED = {"llama.cpp": "llama.cmake", "ggml": "ggml.cmake"}
"""Project → the file of ``ADDED`` that CMake includes behind its project()."""
TELL_SECONDS = 10.0
"""Seconds between two lines that tell how far the compiler is."""


def pinned(requirements: Path) -> str:
    """The requirement line of the package with its hashes, as pip reads it."""
    text = requirements.read_text()
    found = re.search(rf"^{PACKAGE}==[^\n]*(?:\n[ \t]+--hash[^\n]*)*", text, re.MULTILINE)
    if found is None:
        sys.exit(f"{requirements} does not pin {PACKAGE}")
    return found.group(0)


def cpu_features() -> str:
    """What the compiler will see of this CPU, or the machine's name where that cannot be read."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())


def key(line: str) -> str:
    """Directory name for a wheel built from ``line`` on this machine."""
    added = [file.read_text() for file in sorted(ADDED.iterdir())]
    seed = "\n".join([line, sys.version.split()[0], platform.platform(), cpu_features(), *OPTIONS, *added])
    return hashlib.sha256(seed.encode()).hexdigest()[:16]


def compiler_missing() -> str | None:
    """One sentence on what to install, or None."""
    if platform.system() == "Windows":
        return None  # CMake finds Visual Studio, or tells that it cannot.
    missing = [tool for tool in ("gcc", "g++", "make") if shutil.which(tool) is None]
    if platform.system() == "Darwin":
        missing = [] if shutil.which("clang++") else ["clang++"]
    if not missing:
        return None
    how = {
        "Darwin": "xcode-select --install",
        "Linux": "Debian, Ubuntu: apt install build-essential; Fedora: dnf install gcc-c++ make",
    }[platform.system()]
    return f"llama.cpp is compiled on this machine, and {', '.join(missing)} is missing ({how})."


def cmake_arguments() -> str:
    """CMAKE_ARGS for the build: what the environment says, then ours."""
    hooks = [f"-DCMAKE_PROJECT_{name}_INCLUDE={(ADDED / file).as_posix()}" for name, file in INCLUDED.items()]
    return f"{os.environ.get('CMAKE_ARGS', '')} {shlex.join([*OPTIONS, *hooks])}".strip()


def pip(*arguments: str) -> list[str]:
    """The command that runs this environment's pip."""
    return [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]


def compile_wheel(line: str, scratch: Path) -> Path:
    """A wheel of the pinned ``line`` in ``scratch``; tells every few seconds how far it is."""
    wanted, log = scratch / "llama.txt", scratch / "log"
    wanted.write_text(line + "\n")
    # pip's cache of wheels is not used, because it does not know how a wheel was built.
    command = pip(
        "wheel", "-v", "--no-cache-dir", "--no-deps", "--require-hashes", "-r", str(wanted), "-w", str(scratch)
    )
    environment = {
        "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count() or 1),
        **os.environ,
        "CMAKE_ARGS": cmake_arguments(),
    }
    begun = told = time.monotonic()
    with log.open("w+b") as output:
        process = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            time.sleep(0.2)
            now = time.monotonic()
            if now - told >= TELL_SECONDS:
                told = now
                print(f"{now - begun:5.0f} s  {progress(log.read_text(errors='replace'))}", flush=True)
    if process.returncode:
        last = log.read_text(errors="replace").splitlines()[-200:]
        sys.exit("\n".join([*last, "llama-cpp-python could not be built; the reason is above."]))
    return next(scratch.glob("*.whl"))


def progress(log: str) -> str:
    """How far a build is, by the last count in its output (Ninja's ``[3/70]``, make's ``[ 4%]``)."""
    counts = re.findall(r"^\s*\[\s*(\d+(?:/\d+|%))\]", log, re.MULTILINE)
    if counts:
        return f"compiling {counts[-1].replace('/', ' of ')}"
    return "configuring" if "Configuring CMake" in log else "fetching the source and its build tools"


def wheel(cache: Path, requirements: Path) -> Path:
    """The wheel of this machine, compiled where ``cache`` does not hold it yet."""
    line = pinned(requirements)
    folder = cache / key(line)
    wheels = list(folder.glob("*.whl"))
    if wheels:
        return wheels[0]
    problem = compiler_missing()
    if problem:
        sys.exit(problem)
    print("Compiling llama.cpp for this machine, once: two to three minutes on two cores.", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        made = compile_wheel(line, Path(scratch))
        shutil.move(made, folder / made.name)
    return folder / made.name


def main() -> None:
    """Build or find the wheel, then install it without its dependencies (the lock file brings those)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--requirements", type=Path, default=Path("requirements/runtime.txt"))
    arguments = parser.parse_args()
    found = wheel(arguments.cache, arguments.requirements)
    if subprocess.run(pip("install", "-q", "--no-deps", "--force-reinstall", str(found)), check=False).returncode:
        sys.exit(f"{found.name} could not be installed")


if __name__ == "__main__":
    main()
