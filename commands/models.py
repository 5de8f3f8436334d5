"""``hearsay models``: which models there are, whether they are whole, and how they come and go."""

import json
from typing import Annotated

import typer

from commands.console import FAILED, complain

app = typer.Typer(
    help="The models on this machine.",
    epilog="Example: hearsay models list",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME|DIR", help="A model's name or directory.")]


@app.command("list", epilog="Example: HEARSAY_MODELS=/srv/models hearsay models list --json")
def list_models(as_json: Annotated[bool, typer.Option("--json", help="One JSON object a model.")] = False) -> None:
    """List the models that a name reaches. They lie on HEARSAY_MODELS, in the user's directory, or in the package."""
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


@app.command(epilog="Example: hearsay models pull OWNER/REPOSITORY --name my-model")
def pull(
    repository: Annotated[str, typer.Argument(metavar="OWNER/NAME", help="Repository on the Hugging Face hub.")],
    name: Annotated[
        str | None,
        typer.Option("--name", help="What to call it here [default: the repository's name].", show_default=False),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit.", show_default=False)
    ] = None,
) -> None:
    """Fetch an exported model from the hub into the user's directory. Kept only if every checksum holds."""
    from engines import store

    print(store.pull(repository, name, revision=revision))


@app.command(epilog="Example: hearsay models remove my-model")
def remove(name: Annotated[str, typer.Argument(metavar="NAME", help="A model of the user's directory.")]) -> None:
    """Delete a model from the user's directory. Bundled models and those on HEARSAY_MODELS stay."""
    from engines import store

    print(f"removed {store.remove(name)}")
