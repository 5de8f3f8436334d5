"""What the sockets have in common: messages as JSON, and an error as a message."""

from codecs import BOM_UTF8
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

import msgspec

_encoder: Final = msgspec.json.Encoder()
M = TypeVar("M")

Whole = Annotated[int, msgspec.Meta(ge=-(1 << 53), le=1 << 53)]
"""A whole number that any reader of JSON keeps exactly (RFC 8259, 6). Larger ones are refused."""


class Error(msgspec.Struct, tag="Error", tag_field="type"):
    """Something went wrong. The stream goes on unless a close follows."""

    variant: str
    description: str
    message: str = ""


def encode(message: msgspec.Struct) -> bytes:
    """JSON text in UTF-8."""
    return _encoder.encode(message)


def decoded(text: str | bytes, decoder: "msgspec.json.Decoder[M]") -> M:
    """A client's message.

    Raises:
        msgspec.MsgspecError: not JSON, or none of the messages that ``decoder`` knows.
    """
    try:
        return decoder.decode(_unmarked(text))
    except RecursionError:
        raise msgspec.ValidationError("nested too deeply") from None


def _unmarked(text: str | bytes) -> str | bytes:
    """``text`` without a byte order mark before it, which Windows writes and a reader may ignore (RFC 8259, 8.1)."""
    return text.removeprefix("\ufeff") if isinstance(text, str) else text.removeprefix(BOM_UTF8)


def wrong_field(message: str | bytes, kind: Any) -> str | None:
    """The field because of which ``message`` is no ``kind``, such as ``item.content[0].type``; None where the message
    is no JSON, or no single field is to blame."""
    try:
        return misfit(msgspec.json.decode(_unmarked(message)), kind) or None
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None


def misfit(value: object, kind: Any, *, strict: bool = True) -> str | None:
    """The place of the first value in ``value`` that ``kind`` does not take, or that is missing, such as
    ``item.content[0].type``; it is empty where all of ``value`` is wrong, and None where everything fits. ``strict``
    means what it means to msgspec."""
    try:
        msgspec.convert(value, kind, strict=strict)
        return None
    except (msgspec.ValidationError, RecursionError):
        pass
    kinds: list[Any] = [kind] if get_origin(kind) is list else [kind, *get_args(kind)]
    if isinstance(value, dict):
        fields = cast(dict[str, Any], value)
        structs = [one for one in kinds if isinstance(one, type) and issubclass(one, msgspec.Struct)]
        found = next((one for one in structs if _is_meant(fields, one)), None)
        if found is not None:
            return _misfit_field(fields, found, strict)
        tag = structs[0].__struct_config__.tag_field if structs else None
        return tag or ""
    if isinstance(value, list):
        for element in (get_args(one)[0] for one in kinds if get_origin(one) is list):
            for place, item in enumerate(cast(list[Any], value)):
                if (below := misfit(item, element, strict=strict)) is not None:
                    return f"[{place}]{_below(below)}"
    return ""


def _is_meant(fields: dict[str, Any], kind: type[msgspec.Struct]) -> bool:
    config = kind.__struct_config__
    return config.tag is None or fields.get(config.tag_field or "") == config.tag


def _misfit_field(given: dict[str, Any], kind: type[msgspec.Struct], strict: bool) -> str:
    known = msgspec.structs.fields(kind)
    for field in known:
        if field.encode_name not in given:
            if field.required:
                return field.encode_name
        elif (below := misfit(given[field.encode_name], field.type, strict=strict)) is not None:
            return f"{field.encode_name}{_below(below)}"
    names = {field.encode_name for field in known} | {kind.__struct_config__.tag_field}
    return next((name for name in given if name not in names), "")


def _below(path: str) -> str:
    return path if path.startswith("[") or not path else f".{path}"
