"""``make bundle``: one archive for machines like this one that have no network.

It holds the wheels that requirements/runtime.txt pins by hash, llama.cpp compiled here, hearsay with its small models,
the models named, and tools/install.sh, which needs Python of the same minor version and nothing else. What the
processor here can and one elsewhere cannot is checked there before anything is written.
"""

import argparse
import hashlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from engines.integrity import verify
from engines.manifest import NAME, ManifestError
from engines.store import ModelNotFound, find
from tools.llama_wheel import cpu_features, pinned, pip, wheel

ROOT = Path(__file__).resolve().parent.parent
REQUIREMENTS = ROOT / "requirements" / "runtime.txt"
INSTALLER = Path(__file__).with_name("install.sh")
_COMPUTES = re.compile(r"(?:avx|fma|f16c|bmi|sse|ssse|amx|asimd|sve|i8mm|bf16)[\w]*")
"""Features that compiled code may use, by their names in /proc/cpuinfo."""


def gather(folder: Path, cache: Path) -> None:
    """The wheels of everything into ``folder``, those of the index held to their hashes."""
    compiled = wheel(cache, REQUIREMENTS)
    shutil.copy(compiled, folder)
    with tempfile.TemporaryDirectory() as scratch:
        others = Path(scratch) / "others.txt"
        others.write_text(REQUIREMENTS.read_text(encoding="utf-8").replace(pinned(REQUIREMENTS), ""), encoding="utf-8")
        for wanted in (("--require-hashes", "-r", str(others)), (str(ROOT),)):
            if subprocess.run(pip("wheel", "-q", "--no-deps", "-w", str(folder), *wanted), check=False).returncode:
                sys.exit("The bundle is not made: pip could not get every wheel; its reason is above.")


def fill(folder: Path, cache: Path, models: list[str]) -> str:
    """Lay out the bundle in ``folder``; the archive's name without its ending.

    Raises:
        ManifestError, ModelNotFound: one of ``models`` is none.
    """
    named = {path.name: path for path in map(find, models)}
    for name, path in named.items():
        manifest = verify(path)
        cards = [card.name for card in path.iterdir() if card.name.startswith(("README", "LICENSE"))]
        for file in (NAME, *manifest.files, *cards):
            (folder / "models" / name / file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path / file, folder / "models" / name / file)
    wheels = folder / "wheels"
    wheels.mkdir()
    gather(wheels, cache)
    (folder / "cpu").write_text(" ".join(sorted(set(_COMPUTES.findall(cpu_features())))) + "\n")
    minor = f"{sys.version_info.major}.{sys.version_info.minor}"
    installer = INSTALLER.read_text(encoding="utf-8").replace("@PYTHON@", minor)
    (folder / "install.sh").write_text(installer, encoding="utf-8")
    (folder / "install.sh").chmod(0o755)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(folder).as_posix()}" for file in files]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    (ours,) = wheels.glob("hearsay-*.whl")
    platform = re.sub(r"[^\w]", "_", sysconfig.get_platform())
    return f"hearsay-{ours.name.split('-')[1]}-py{minor}-{platform}"


def main() -> None:
    """Write ``hearsay-VERSION-pyPYTHON-PLATFORM.tar`` and tell its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, required=True, help="where compiled wheels are kept")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder of the archive")
    parser.add_argument("models", nargs="*", help="further models: names or directories")
    arguments = parser.parse_args()
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=output) as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        try:
            name = fill(folder, arguments.cache, arguments.models)
        except (ManifestError, ModelNotFound) as error:
            sys.exit(str(error))
        archive = output / f"{name}.tar"
        with tarfile.open(Path(scratch) / "tar", "w") as tar:  # Wheels are compressed already, so the tar is not.
            tar.add(folder, name)
        (Path(scratch) / "tar").replace(archive)
    print(f"{archive}: {archive.stat().st_size / 1e6:.0f} MB. There: tar xf {archive.name} && {name}/install.sh [DIR]")


if __name__ == "__main__":
    main()
