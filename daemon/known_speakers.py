"""Speakers whom a request knows: names, and a recording of each as a ``data:`` URL, as OpenAI's clients send them.

They are known for that request alone: their voice prints are forgotten with it.
"""

import base64
import io
from typing import Final

from audio.recording import RecordingError, beginning
from daemon.body import FormFields
from engines.lane import Owner
from engines.sessions import OptionError
from streaming.model import AsrModel
from streaming.people import MOST_SECONDS
from streaming.speakers import Floats, Person

NAMES: Final = "known_speaker_names"
REFERENCES: Final = "known_speaker_references"
MOST: Final = 4
"""Speakers whom a request may know: as many as OpenAI's."""


def known_speakers(asked: FormFields, model: AsrModel, owner: Owner) -> tuple[Person, ...]:
    """The people whom the form names; the work is the ``owner``'s.

    Raises:
        Refused: 400, a name or a recording is none that they can be known by.
        Cancelled: the owner gave it up.
    """
    names, references = asked.texts(NAMES), asked.texts(REFERENCES)
    if len(names) > MOST:
        raise asked.wrong(NAMES, f"{len(names)} names, the limit is {MOST}")
    if len(names) != len(references):
        raise asked.wrong(REFERENCES, f"{len(references)} for {len(names)} names; each name needs one, in their order")
    people = list[Person]()
    for name, reference in zip(names, references, strict=True):
        try:
            people.append(model.person(name, [_heard(reference, model.sample_rate)], owner))
        except OptionError as error:
            raise asked.wrong(NAMES if error.field == "name" else REFERENCES, f"{name[:80]}: {error.reason}") from None
    return tuple(people)


def _heard(url: str, rate: int) -> Floats:
    """The sound in a ``data:`` URL.

    Raises:
        OptionError: there is none.
    """
    kind, _, data = url.partition(",")
    kind = kind.lower()
    if not kind.startswith("data:") or not kind.endswith(";base64"):
        raise OptionError("recording", "it must be a data: URL of a sound file, data:audio/wav;base64,…")
    try:
        file = io.BytesIO(base64.b64decode("".join(data.split()), validate=True))
        return beginning(file, rate, MOST_SECONDS)
    except RecordingError as error:
        raise OptionError("recording", f"{error}; send a sound file of 2 to {MOST_SECONDS:g} s") from None
    except ValueError as error:
        raise OptionError("recording", f"its base64 cannot be read ({error}); encode the file anew") from None
