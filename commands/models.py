"""``hearsay models``: which models there are, whether they are whole, and how they come and go."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from commands.console import FAILED, MISUSED, Failure, Threads, complain

app = typer.Typer(
    help="The models on this machine.",
    epilog="Example: hearsay models list",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME|DIR", help="A model's name or directory.")]


@app.command("list", epilog="Example: hearsay models list --available")
def list_models(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a model.")] = False,
    available: Annotated[
        bool, typer.Option("--available", help="Those that can be pulled, and which this machine would keep live.")
    ] = False,
) -> None:
    """List the models that a name reaches. They lie on HEARSAY_MODELS, in the user's directory, or in the package."""
    if available:
        _list_releases(as_json)
        return
    from engines import integrity, store
    from engines.manifest import ManifestError, TtsManifest

    broken = False
    for model in store.available():
        try:
            manifest = integrity.load_manifest(model.path)
        except ManifestError as error:
            complain(str(error))
            broken = True
            continue
        size = sum(file.bytes for file in manifest.files.values())
        speaks = isinstance(manifest, TtsManifest)
        graph, decoder = (manifest.codec, manifest.talker) if speaks else (manifest.encoder, manifest.decoder)
        if as_json:
            entry = {
                "name": model.name,
                "path": str(model.path),
                "origin": model.origin,
                "architecture": manifest.architecture,
                "languages": manifest.languages,
                "kind": "tts" if speaks else "asr",
                "codec" if speaks else "encoder": graph.precision,
                "decoder": decoder.quantization,
                "bytes": size,
                "licence": manifest.licence,
                "default": model.name in store.DEFAULTS.values(),
            }
            print(json.dumps(entry, ensure_ascii=False))
        else:
            languages = ",".join(manifest.languages[:4]) + (",..." if len(manifest.languages) > 4 else "")
            mark = "*" if model.name in store.DEFAULTS.values() else " "
            weights = f"{graph.precision}+{decoder.quantization}"
            facts = f"{languages:<12} {weights:<14} {size / 1e6:8.1f} MB  {model.origin:<11}"
            print(f"{mark} {model.name:<28} {facts} {model.path}")
    if broken:
        raise typer.Exit(FAILED)


def _list_releases(as_json: bool) -> None:
    """What can be pulled: size, memory, whether it would be live here, licence, languages."""
    from engines import speed, store
    from engines.releases import DOES, RELEASES

    here = {model.name for model in store.available()}
    if not as_json:
        complain("this machine is being measured, which takes two seconds")
    units = speed.probe()
    for one in RELEASES:
        costs = {} if one.kind == "aligner" else {
            precision: speed.cost(one.kind, one.weights, precision, units) for precision in ("q8_0", "q4_k_m")
        }  # fmt: skip
        precision = min(costs, key=lambda name: (costs[name] > speed.COMFORTABLE, name != "q8_0"), default="q8_0")
        memory = speed.resident(one.kind, one.weights, precision)
        cost = costs.get(precision)
        if as_json:
            entry = {
                "name": one.alias,
                "repository": one.repository,
                "kind": one.kind,
                "download": one.bytes,
                "memory": memory,
                "precision": precision,
                "cost": None if cost is None else round(cost, 2),
                "live": None if cost is None else cost <= speed.LIVE,
                "licence": one.licence,
                "languages": one.languages,
                "here": one.alias in here,
            }
            print(json.dumps(entry, ensure_ascii=False))
            continue
        live = "beside one" if cost is None else _pace(cost)
        mark = "*" if one.alias in here else " "
        sizes = f"{one.bytes / 1e9:4.1f} GB, {memory / 1e9:4.1f} GB of memory"
        about = f"; {one.about}" if one.about else ""
        print(f"{mark} {one.alias:<28} {DOES[one.kind]:<12} {sizes}  {live:<31} {one.licence}; {one.languages}{about}")


def _pace(cost: float) -> str:
    """Whether a model of that ``cost`` would be live here, and how fast it would be, in words."""
    from engines import speed

    return f"{'live' if cost <= speed.LIVE else 'not live'}, {1 / cost:.1f} times real time"


@app.command(epilog="Example: hearsay models verify pocket-asr-en")
def verify(name: Name) -> None:
    """Compare size and SHA-256 of every file with the manifest. Exit 1 names the first that differs."""
    from engines import integrity, store

    path = store.find(name)
    manifest = integrity.verify(path)
    size = sum(file.bytes for file in manifest.files.values())
    print(f"{manifest.name}: {len(manifest.files)} files, {size} bytes, all as the manifest says ({path})")


@app.command(epilog="Example: ls $(hearsay models path pocket-asr-en)")
def path(name: Name) -> None:
    """Print a model's directory."""
    from engines import store

    print(store.find(name))


@app.command(epilog="Example: hearsay models pull qwen3-asr-0.6b")
def pull(
    source: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A release (list --available), OWNER/NAME on the Hugging Face hub, a checkpoint's directory, a GGUF.",
        ),
    ],
    name: Annotated[
        str | None,
        typer.Option("--name", help="What to call it here [default: the release's name].", show_default=False),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit.", show_default=False)
    ] = None,
    precision: Annotated[
        Literal["auto", "f32", "f16", "q8_0", "q6_k", "q4_k_m"],
        typer.Option("--precision", help="Of the decoder; auto: the best that this machine keeps live."),
    ] = "auto",
    keep: Annotated[
        bool, typer.Option("--keep/--no-keep", help="Keep the downloaded checkpoint, for another precision.")
    ] = False,
    check: Annotated[
        bool, typer.Option("--try/--no-try", help="Have the model hear a recording, or say a sentence, in the end.")
    ] = True,
    threads: Threads = None,
) -> None:
    """Bring a model: download, convert, check, try. Without torch; what a break leaves is gone on from."""
    from commands.pull import Wish, pull

    wish = Wish(source=source, name=name, revision=revision, precision=precision, keep=keep, threads=threads)
    path = pull(wish)
    print(path, flush=True)
    if check and (code := _tried_apart(path, threads)):
        raise typer.Exit(code)


def _tried_apart(path: Path, threads: int | None) -> int:
    """The exit code of ``hearsay models try`` in a process of its own: what converting took of memory is free again,
    and a model that ends its process ends no pull."""
    command = [sys.executable, "-m", "hearsay", "models", "try", str(path)]
    if threads is not None:
        command += ["--threads", str(threads)]
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode
    if code < 0:
        complain(f"{path.name} ended the process that tried it (signal {-code}); the machine may be out of memory")
    return FAILED if code else 0


@app.command("try", epilog="Example: hearsay models try qwen3-asr-0.6b")
def try_model(name: Name, threads: Threads = None) -> None:
    """Have a model hear, or speak and be heard. Exit 1 if more than 30 % of the words are wrong."""
    from commands.trial import report
    from engines import store

    report(store.find(name), threads)


@app.command(epilog="Example: hearsay models remove my-model")
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="A model of the user's directory.")]) -> None:
    """Delete a model from the user's directory. Bundled models and those on HEARSAY_MODELS stay."""
    from engines import store

    try:
        print(f"removed {store.remove(name)}")
    except store.StoreError as error:  # It is no model of the user's.
        raise Failure(str(error), MISUSED) from None
