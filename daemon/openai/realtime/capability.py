"""Whether a conversation can be answered here, and whether the models can do what a session's object asks."""

from daemon.hub import Hub
from daemon.openai.realtime.input_audio import NAMES
from daemon.openai.realtime.spec import Invalid, Spec
from daemon.refusal import Refused
from engines.sessions import OptionError


async def check(hub: Hub, spec: Spec, before: Spec | None = None, *, root: str = "session") -> None:
    """Refuse what the models cannot do. What ``before`` asked for already is not checked again. ``root`` is the field
    in which ``spec`` came.

    Raises:
        Invalid: naming the field.
        Refused: 503, the models are being loaded.
    """
    if spec is before:
        return
    heard = spec.listen_options()
    if before is None or before.listen_options() != heard:
        try:
            hub.hearing_model().model.check(heard)
        except OptionError as error:
            name = NAMES.get(error.field, error.field)
            raise Invalid(name, f"{name}: {error.reason}") from None
    output = spec.audio.output
    if output is None or hub.loaded().speaking is None:
        return
    if before is not None and before.audio.output is not None and before.audio.output.voice == output.voice:
        return
    try:
        await hub.check_voice(spec.speak_options())
    except OptionError as error:
        name = f"{root}.audio.output.{error.field}"
        raise Invalid(name, f"{name}: {error.reason}") from None


def check_answers(hub: Hub) -> None:
    """Check that the daemon can answer somebody who speaks.

    Raises:
        Refused: it has no speaking model or no chat endpoint.
    """
    hub.speaking_model()
    if not hub.settings.llm_url:
        raise Refused(501, "no_llm", "no chat endpoint is set, so nobody answers: start the daemon with --llm-url")
