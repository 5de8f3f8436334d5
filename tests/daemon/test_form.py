"""Multipart forms, however they are cut and whatever is in them."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.datastructures import UploadFile

from daemon.form import MOST_FIELD_BYTES, MOST_FIELDS, MOST_URL_BYTES, BrokenForm, read

KIND = "multipart/form-data; boundary=X"
Found = list[tuple[str, str | bytes]]


def found(chunks: Sequence[bytes], kind: str = KIND) -> Found:
    """The fields of a form that comes in these pieces; files as their bytes."""

    async def run() -> Found:
        async def pieces() -> AsyncIterator[bytes]:
            for chunk in chunks:
                yield chunk

        form = await read(kind, pieces(), {"file", "file[]"})
        fields: Found = []
        for name, value in form.multi_items():
            fields.append((name, await value.read() if isinstance(value, UploadFile) else value))
        await form.close()
        return fields

    return asyncio.run(run())


def part(disposition: str, data: bytes, kind: str = "") -> bytes:
    """One field."""
    header = f"\r\nContent-Type: {kind}" if kind else ""
    return f"--X\r\nContent-Disposition: form-data; {disposition}{header}\r\n\r\n".encode() + data + b"\r\n"


END = b"--X--\r\n"
SOUND = bytes(range(256)) * 20
WHOLE = (
    part('name="model"', b"whisper-1")
    + part("name=\"file\"; filename*=UTF-8''na%C3%AFve.wav", SOUND)
    + part('name="keywords[]"', "Zoë".encode())
    + part('name="keywords[]"', b"caf\xe9")
    + END
)
FIELDS: Found = [("model", "whisper-1"), ("file", SOUND), ("keywords[]", "Zoë"), ("keywords[]", "café")]


@settings(max_examples=40)
@given(st.lists(st.integers(0, len(WHOLE)), max_size=12))
def test_any_cut_of_a_form_is_the_same_form(cuts: list[int]) -> None:
    """Also within a boundary or a letter; Latin-1 where it is no UTF-8."""
    places = [0, *sorted(cuts), len(WHOLE)]
    assert found([WHOLE[a:b] for a, b in zip(places, places[1:], strict=False)]) == FIELDS


@settings(max_examples=100)
@given(st.binary(max_size=300), st.sampled_from([KIND, "multipart/form-data", "multipart/form-data; boundary=", ""]))
def test_any_bytes_are_a_form_or_are_refused(data: bytes, kind: str) -> None:
    for body in (data, WHOLE[:60] + data, part('name="a"', data) + END):
        try:
            found([body], kind)
        except BrokenForm as error:
            assert str(error)


@pytest.mark.parametrize(
    ("disposition", "kind"),
    [
        ('name="file"', ""), ('name="file[]"', ""), ('name="other"; filename=""', ""), ("name=other; filename=x", ""),
        ("name=\"other\"; FILENAME*0=\"a\"", ""), ('name="other"', "audio/wav"), ('name="other"', "Video/MP4"),
        ('name="other"', "application/octet-stream"),
    ],
)  # fmt: skip
def test_a_file_is_told_by_its_name_its_kind_or_its_field(disposition: str, kind: str) -> None:
    assert isinstance(found([part(disposition, b"abc", kind) + END])[0][1], bytes)


@pytest.mark.parametrize("disposition", ['name="other"', 'name="a; filename=b"', 'name="filename="'])
def test_everything_else_is_a_text(disposition: str) -> None:
    assert found([part(disposition, b"abc") + END])[0][1] == "abc"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (part('filename="x"', b"a") + END, "has no name"),
        (part('name="file"', b"a") + part('name="b"; filename="c"', b"d") + END, "the second as b: all fields but"),
        (part('name="file"', b"a"), "ends before its last boundary"),
        (part('name="a"', b"b") * (MOST_FIELDS + 1) + END, f"more than {MOST_FIELDS} fields"),
        (part('name="a"', b"b" * (MOST_FIELD_BYTES + 1)) + END, f"a: longer than {MOST_FIELD_BYTES} bytes"),
        (part('name="a"', b"Data:" + b"b" * MOST_URL_BYTES) + END, f"a: longer than {MOST_URL_BYTES} bytes"),
        (
            part('name="a"', b"data:" + b"b" * (MOST_URL_BYTES - 5)) * 7 + END,
            f"longer than {MOST_FIELDS * MOST_FIELD_BYTES} bytes together",
        ),
    ],
)
def test_what_is_too_much_is_named(body: bytes, says: str) -> None:
    with pytest.raises(BrokenForm, match=says):
        found([body])
