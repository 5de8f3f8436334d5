"""``hearsay doctor``: what is here, what is missing, and what to do about it."""

import importlib
import importlib.util
import json
import os
import platform
import shlex
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires
from importlib.metadata import version as installed
from typing import Annotated, Any, Literal

import typer

from commands.console import FAILED, prose, version
from commands.progress import late

HELP = prose("""
Say what is here, what is missing, and what to do about it. Versions, execution providers, models, thread budget, how
many live sessions this machine keeps, sound devices.

Exit code 1 if something is missing that hearing needs; extras and sound are optional.
""")
EPILOG = "Example: hearsay doctor --json"

EXTRAS = {"export": ("torch", "onnx", "onnxscript", "gguf", "safetensors", "transformers")}

State = Literal["ok", "optional", "missing"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at. ``remedy`` says what to do where something is missing."""

    topic: str
    state: State
    found: str
    remedy: str = ""


def add_to(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("doctor", help=HELP, epilog=EPILOG)(doctor)


def doctor(as_json: Annotated[bool, typer.Option("--json", help="One JSON object a finding.")] = False) -> None:
    """See HELP."""
    missing = False
    for finding in examine():  # Each is told when it is found: to measure the machine takes seconds.
        missing = missing or finding.state == "missing"
        if as_json:
            print(json.dumps(asdict(finding), ensure_ascii=False), flush=True)
            continue
        mark = {"ok": "  ", "optional": "- ", "missing": "! "}[finding.state]
        print(f"{mark}{finding.topic:<11}{finding.found}", flush=True)
        if finding.remedy:
            print(f"{'':13}-> {finding.remedy}")
    if missing:
        raise typer.Exit(FAILED)


def examine() -> Iterator[Finding]:
    """Look at everything, one thing after the other."""
    here = f"{version()}, Python {platform.python_version()}, {platform.system()} {platform.machine()}"
    checks: list[Callable[[], list[Finding]]] = [
        _packages, _providers, _kernels, _threads, _models, _speed, _sound, _extras,
    ]  # fmt: skip
    yield Finding("hearsay", "ok", here)
    for check in checks:
        yield from _found(check)


def _found(check: Callable[[], list[Finding]]) -> list[Finding]:
    topic = check.__name__.strip("_")
    try:
        with late(f"{topic}: being looked at, which takes a while"):
            return check()
    except ImportError as error:
        return [Finding(topic, "missing", f"not looked at: {error}", "install the packages that are missing")]


def _packages() -> list[Finding]:
    """The packages that the project says it needs, beside those that are installed."""
    from packaging.requirements import Requirement

    have, lack, wrong = list[str](), list[str](), list[str]()
    for requirement in map(Requirement, requires("hearsay") or ()):
        name = requirement.name
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        try:
            found = installed(name)
        except PackageNotFoundError:
            # ONNX Runtime's builds for a GPU have other names.
            if name.startswith("onnxruntime") and importlib.util.find_spec("onnxruntime"):
                have.append(f"{name} (another build)")
            else:
                lack.append(str(requirement).partition(";")[0].strip())
            continue
        have.append(f"{name} {found}")
        if not requirement.specifier.contains(found, prereleases=True):
            wrong.append(f"{name}{requirement.specifier}")
    findings = [Finding("packages", "ok", ", ".join(have)), _bounds()]
    for what, names in (("not installed", lack), ("of another version", wrong)):
        if names:
            remedy = f"pip install {' '.join(shlex.quote(name) for name in names)}"
            findings.append(Finding("packages", "missing", f"{what}: {', '.join(names)}", remedy))
    return findings


def _providers() -> list[Finding]:
    try:
        ort: Any = importlib.import_module("onnxruntime")  # The package has no types.
        names: list[str] = ort.get_available_providers()
    except ImportError as error:
        return [Finding("providers", "missing", str(error), "pip install onnxruntime")]
    gpu = [name for name in names if name.startswith(("Dml", "CUDA", "CoreML"))]
    hint = {
        "win32": "onnxruntime-directml serves every GPU: pip install onnxruntime-directml==1.24.4",
        "darwin": "the plain onnxruntime wheel brings CoreML: pip install --force-reinstall onnxruntime",
    }.get(sys.platform, "for an NVIDIA GPU: pip install onnxruntime-gpu in place of onnxruntime")
    # Azure's provider forwards to a service in the network; nothing here asks for it.
    short = ", ".join(name.removesuffix("ExecutionProvider") for name in names if not name.startswith("Azure"))
    if "CUDAExecutionProvider" in gpu:
        from engines.device import cuda_lacks

        lack = cuda_lacks()
        return [
            Finding("providers", "optional" if lack else "ok", short, f"--device cuda needs {lack}" if lack else "")
        ]
    return [Finding("providers", "ok", short) if gpu else Finding("providers", "optional", f"{short} (no GPU)", hint)]


def _kernels() -> list[Finding]:
    """The instruction sets that llama.cpp multiplies with, which decide how many sessions the CPU keeps live."""
    try:
        from engines.llama import VNNI, instruction_sets, products
    except ImportError:  # An earlier line tells that it is missing.
        return []
    sets, own = instruction_sets(), products()
    int8 = "int8 with VNNI" if sets & VNNI else "int8 without VNNI, at twice the speed of float32"
    if own or "AVX2" not in sets:
        told = f"q8_0 and q4_k_m in tiles with {own}" if own else "q8_0 as llama.cpp has it"
        return [Finding("kernels", "ok", f"{told}{f'; {int8}' if 'AVX2' in sets else ''}")]
    return [
        Finding(
            "kernels",
            "optional",
            f"q8_0 as llama.cpp has it; {int8}",
            "in the repository make environment or make bundle compiles llama.cpp for this machine",
        )
    ]


def _threads() -> list[Finding]:
    from engines.threads import budget

    count = budget()
    found = f"{count} for model calls, of {os.cpu_count()} CPUs of the machine"
    return [Finding("threads", "ok", found)]


def _models() -> list[Finding]:
    from engines import integrity, store
    from engines.manifest import ManifestError

    findings = list[Finding]()
    for model in store.available():
        try:
            manifest = integrity.verify(model.path)
        except ManifestError as error:
            findings.append(Finding("model", "missing", str(error), "pull it again: hearsay models pull NAME"))
            continue
        size = sum(file.bytes for file in manifest.files.values())
        default = ", the default" if model.name in store.DEFAULTS.values() else ""
        findings.append(
            Finding("model", "ok", f"{model.name} ({size / 1e6:.1f} MB, {model.origin}{default}): {model.path}")
        )
    lacking: dict[str, State] = {"asr": "missing", "tts": "optional"}
    for kind, state in lacking.items():
        try:
            store.find(store.default(kind))
        except store.ModelNotFound as error:
            remedy = f"hearsay models pull, or put one on {store.SEARCH_PATH}, or reinstall"
            findings.append(Finding("model", state, str(error), remedy))
    return findings


def _speed() -> list[Finding]:
    """Load the models that a daemon takes by default, let each do a little, and measure its speed."""
    from codec.model import TtsModel
    from daemon.config import Settings
    from engines import integrity, speed
    from engines.choice import Kind, choose
    from engines.manifest import ManifestError
    from engines.store import ModelNotFound
    from streaming.model import AsrModel

    findings, most = list[Finding](), Settings().sessions
    kinds: tuple[Kind, ...] = ("asr", "tts")
    for kind in kinds:
        try:
            choice = choose(kind)
            integrity.verify(choice.path)
        except (ModelNotFound, ManifestError):  # An earlier line tells that there is no model.
            continue
        if kind == "asr":
            model = AsrModel(choice.path, sessions=most)
            limit = " or more" if model.headroom == most else ""
            able = f"{model.headroom}{limit} live sessions of {model.name}"
        else:
            model = TtsModel(choice.path, sessions=1)
            able = f"{model.name} takes {model.cost:.2f} s for a second of its voice"
        cost, name = model.cost, model.name
        model.close()
        why = f" ({choice.why})" if choice.why else ""
        if cost <= speed.LIVE:
            findings.append(Finding("speed", "ok", f"{able}, by the speed of this moment{why}"))
            continue
        found = f"{name} is not live here: a second of speech takes {cost:.1f} s, by the speed of this moment{why}"
        findings.append(Finding("speed", "optional", found, "take a smaller model, or give this machine more threads"))
    return findings


def _sound() -> list[Finding]:
    from clients.microphone import SoundError, devices

    try:
        kinds = (("records", devices(), "captions"), ("plays", devices("output"), "saying it aloud"))
    except SoundError as error:
        message, _, remedy = str(error).partition(". ")
        return [Finding("sound", "optional", f"{message} (only captions and saying aloud need it)", remedy)]
    findings = list[Finding]()
    for does, found, verb in kinds:
        if not found:
            remedy = "plug one in, or in a container pass the sound device through"
            findings.append(
                Finding("sound", "optional", f"PortAudio is here, but no device that {does} ({verb})", remedy)
            )
        for device in found:
            default = ", the default" if device.is_default else ""
            facts = f"{device.channels} channels, {device.sample_rate} Hz{default}"
            findings.append(Finding("sound", "ok", f"{does}: {device.index}: {device.name}, {facts}"))
    return findings


def _bounds() -> Finding:
    from audio.ffmpeg import MOST_MIB, bounded_allocations

    if bounded_allocations():
        return Finding("ffmpeg", "ok", f"what a file makes FFmpeg allocate at once is bounded to {MOST_MIB} MiB")
    found = "this build of PyAV hides av_max_alloc: a small broken file may take 2 GiB of memory"
    return Finding("ffmpeg", "optional", found, "pip install --force-reinstall --only-binary av av")


def _extras() -> list[Finding]:
    findings = list[Finding]()
    for extra, modules in EXTRAS.items():
        lack = [name for name in modules if importlib.util.find_spec(name) is None]
        if lack:
            # The project's own name would be wrong here: PyPI's hearsay is another project.
            remedy = f"pip install {' '.join(lack)}"
            findings.append(Finding("extra", "optional", f"{extra}: {', '.join(lack)} not installed", remedy))
        else:
            findings.append(
                Finding("extra", "ok", f"{extra}: {', '.join(f'{name} {_installed(name)}' for name in modules)}")
            )
    return findings


def _installed(name: str) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return "(version unknown)"
