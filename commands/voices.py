"""``hearsay voices``: the voices of a speaking model, how a voice of one's own is made from a recording, and whose
voices are known when they are heard."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from commands.console import MISUSED, Failure, Key, TtsModel, Url, complain

if TYPE_CHECKING:
    from clients.voices import Voice
    from codec.voices import Voices

app = typer.Typer(
    help="The voices of a speaking model, here or of a daemon. Without a verb: list.",
    epilog="Example: hearsay voices list --url http://127.0.0.1:8750",
    add_completion=False,
    rich_markup_mode=None,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object a voice.")]


@app.callback(invoke_without_command=True)
def _without_a_verb(
    context: typer.Context, model: TtsModel = None, url: Url = None, key: Key = None, as_json: Json = False
) -> None:
    verb = context.invoked_subcommand
    if verb is None:
        list_voices(model, url, key, as_json)
    elif any(_given(context, name) for name in context.params):
        raise Failure(f"options belong behind the verb: hearsay voices {verb} …", MISUSED)


def _given(context: typer.Context, name: str) -> bool:
    """Whether a parameter stands on the command line, rather than in the environment alone."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


@app.command("list", epilog="Example: hearsay voices list --tts-model pocket-tts-en")
def list_voices(model: TtsModel = None, url: Url = None, key: Key = None, as_json: Json = False) -> None:
    """List presets, cloned voices, and who is known when heard. The id that --voice takes, kind, name."""
    from clients.voices import Voice
    from streaming.people import People

    known = [Voice(one.name, one.name, "known") for one in People().all()] if url is None else []
    for voice in [*found(model, url, key), *known]:
        if as_json:
            print(json.dumps(asdict(voice), ensure_ascii=False))
        else:
            print(f"{voice.id:<24} {voice.kind:<8} {voice.name}")


def found(model: str | None, url: str | None, key: str | None) -> list["Voice"]:
    """The voices of the daemon at ``url``, else of the speaking model here."""
    from clients.voices import Voice, voices

    return voices(url, key=key) if url is not None else [Voice(v.id, v.name, v.kind) for v in _stored(model).listed()]


@app.command("add", epilog="Example: hearsay voices add grandma grandma.flac")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its id from then on: a-z, 0-9, _ and -.")],
    recordings: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE",
            help="One person speaking, 1 to 30 s; with --listen 1.5 s or more, the first 30 s of each count.",
            show_default=False,
        ),
    ],
    listen: Annotated[
        bool,
        typer.Option("--listen", help="Call speakers who sound so NAME (of any letters); several FILEs will do."),
    ] = False,
    text: Annotated[
        str | None,
        typer.Option(
            "--text",
            help="What is said in it (up to 15 s): a closer likeness. Needs a codec encoder.",
            show_default=False,
        ),
    ] = None,
    model: TtsModel = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Make a voice from a recording, with a model that can clone. One of that name is replaced."""
    from clients.voices import add_voice
    from streaming.people import People

    if listen:
        if url is not None or model is not None or text is not None:
            raise Failure(
                "--listen keeps a voice print on this machine, so leave --url, --tts-model and --text out", MISUSED
            )
        before = [one.name for one in People().all()]
        made = _know(name, recordings)
    elif len(recordings) > 1:
        raise Failure("a voice to speak with is made of one recording; --listen takes several", MISUSED)
    else:
        before = [voice.id for voice in found(model, url, key)]
        if url is not None:
            made = add_voice(url, name, recordings[0], text, key=key).id
        else:
            made = _clone(model, name, recordings[0], text)
    print(f"{'replaced' if made.casefold() in map(str.casefold, before) else 'added'} {made}")


@app.command("remove", epilog="Example: hearsay voices remove grandma")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A cloned voice.")],
    listen: Annotated[bool, typer.Option("--listen", help="A name that was added so.")] = False,
    model: TtsModel = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Forget a cloned voice. Presets stay."""
    from clients.voices import remove_voice

    if listen:
        from streaming.people import People

        if url is not None or model is not None:
            raise Failure("--listen forgets a voice print of this machine, without --url and --tts-model", MISUSED)
        People().remove(name)
    elif url is not None:
        remove_voice(url, name, key=key)
    else:
        _stored(model).delete(name)
    print(f"removed {name}")


def _stored(model: str | None) -> "Voices":
    """The voices of a model here; its weights are not needed."""
    from codec.voices import Voices
    from commands.speech import speaking_model
    from engines.manifest import read_tts

    return Voices(read_tts(speaking_model(model)))


def _clone(model: str | None, name: str, recording: Path, text: str | None) -> str:
    from audio.recording import RecordingError
    from codec.clone import beginning
    from codec.model import TtsModel as Model
    from commands.speech import speaking_model
    from daemon.names import taken_voice
    from engines.sessions import OptionError

    if (owner := taken_voice(name)) is not None:
        raise Failure(f"name: {name!r} is {owner}; a daemon would not find this voice by it")
    # The check comes before the weights are loaded: that a model cannot clone is to be said at once.
    _stored(model).require_cloning(with_text=text is not None)
    if sys.stderr.isatty():
        complain(f"making the voice {name} of {recording}")
    speaking = Model(speaking_model(model), sessions=1)
    try:
        heard = beginning(recording, speaking.sample_rate)
        return speaking.clone(name, heard, speaking.sample_rate, text).id
    except RecordingError as error:
        raise Failure(f"{recording}: {error}") from None
    except OptionError as error:
        if error.field != "reference":
            raise
        raise Failure(f"{recording}: {error.reason}") from None
    except OSError as error:
        raise Failure(f"{error.filename or name} cannot be written: {error.strerror or error}") from None
    finally:
        speaking.close()


def _know(name: str, recordings: list[Path]) -> str:
    """Store the voice print of who speaks in all ``recordings``; returns their name as it is told."""
    from audio.recording import RecordingError, beginning
    from engines.lane import at_once
    from engines.sessions import OptionError
    from streaming.people import MOST_SECONDS, People, checked, voice_print
    from streaming.speakers import Floats, Person, SpeakerModel
    from streaming.vad import SAMPLE_RATE, VoiceModel

    name = checked("name", name)
    heard = list[Floats]()
    for recording in recordings:
        try:
            heard.append(beginning(recording, SAMPLE_RATE, MOST_SECONDS))
        except RecordingError as error:
            raise Failure(f"{recording}: {error}; give up to {MOST_SECONDS:g} s of one person speaking") from None
    try:
        made = at_once(voice_print(SpeakerModel.load(), VoiceModel.load(), heard))
    except OptionError as error:
        raise Failure(f"{', '.join(map(str, recordings))}: {error.reason}") from None
    try:
        People().store(Person(name, made))
    except OSError as error:
        raise Failure(f"{error.filename or name} cannot be written: {error.strerror or error}") from None
    return name
