"""Install llama-cpp-python as pinned in requirements/runtime.txt, from a wheel kept in a cache directory.

It has no wheels on the index and compiles for about five minutes, for this very CPU; so the wheel is kept under a name
that says Python, platform, the CPU's features and what is added to it, and a machine compiles it once. Run by the
Makefile. Added: tools/llama, faster products of q8_0, which change no bit.
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
from pathlib import Path

PACKAGE = "llama-cpp-python"
ADDED = Path(__file__).resolve().parent / "llama"


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
    seed = "\n".join([line, sys.version.split()[0], platform.platform(), cpu_features(), *added])
    return hashlib.sha256(seed.encode()).hexdigest()[:16]


def compiler_missing() -> str | None:
    """One sentence on what to install, or None."""
    if platform.system() == "Windows":
        return None  # CMake finds Visual Studio by itself and says so if it cannot
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
    """CMAKE_ARGS for the build: what the environment says, and our file behind ggml's project()."""
    hook = f"-DCMAKE_PROJECT_ggml_INCLUDE={(ADDED / 'q8_0.cmake').as_posix()}"
    return f"{os.environ.get('CMAKE_ARGS', '')} {shlex.quote(hook)}".strip()


def pip(*arguments: str) -> int:
    """Run this environment's pip."""
    return subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        env={**os.environ, "CMAKE_ARGS": cmake_arguments()},
        check=False,
    ).returncode


def main() -> None:
    """Build or find the wheel, then install it without its dependencies (the lock file brings those)."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--requirements", type=Path, default=Path("requirements/runtime.txt"))
    arguments = parser.parse_args()
    line = pinned(arguments.requirements)
    folder: Path = arguments.cache / key(line)
    wheels = list(folder.glob("*.whl"))
    if not wheels:
        problem = compiler_missing()
        if problem:
            sys.exit(problem)
        print(
            "Compiling llama.cpp for this machine: about five minutes, once. The wheel is kept for the next time.",
            flush=True,
        )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            wanted = Path(scratch) / "llama.txt"
            wanted.write_text(line + "\n")
            # Not from pip's cache of wheels: that does not know what is added here.
            if pip("wheel", "-q", "--no-cache-dir", "--no-deps", "--require-hashes", "-r", str(wanted), "-w", scratch):
                sys.exit("llama-cpp-python could not be built; the compiler's output is above.")
            wheel = next(Path(scratch).glob("*.whl"))
            shutil.move(wheel, folder / wheel.name)
        wheels = list(folder.glob("*.whl"))
    if pip("install", "-q", "--no-deps", "--force-reinstall", str(wheels[0])):
        sys.exit(f"{wheels[0].name} could not be installed")


if __name__ == "__main__":
    main()
