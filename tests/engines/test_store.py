"""Models on disk: the order of lookup, checksums, names that stay inside, and removal."""

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines import integrity, store
from engines.manifest import (
    AsrManifest,
    Decoder,
    Encoder,
    File,
    FixedFloor,
    ManifestError,
    Mel,
    Tokenizer,
    member,
    read,
    write,
)

CONTENTS = {
    "mel.npy": b"filters",
    "stem.onnx": b"stem graph",
    "body.onnx": b"body graph",
    "weights/encoder.data": b"shared weights",
    "decoder.gguf": b"GGUF decoder",
    "tokenizer.json": b"{}",
}


def build(directory: Path, **overrides: object) -> AsrManifest:
    """Write a complete model directory, with files that are no graphs, since the store never opens them."""
    directory.mkdir(parents=True)
    files: dict[str, File] = {}
    for name, content in CONTENTS.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_bytes(content)
        files[name] = File(len(content), hashlib.sha256(content).hexdigest())
    fields: dict[str, object] = {
        "format": 1,
        "name": directory.name,
        "architecture": "qwen3-asr",
        "languages": ("en",),
        "licence": "Apache-2.0",
        "mel": Mel(16000, 400, 160, 128, "mel.npy", FixedFloor(-6.5)),
        "encoder": Encoder("stem.onnx", "body.onnx", "int8", 100, 13, 104, 320, 320),
        "decoder": Decoder("decoder.gguf", "q8_0", 5, 320, 6, 2, 64, 1280, 4096),
        "tokenizer": Tokenizer("tokenizer.json"),
        "files": files,
        **overrides,
    }
    manifest = AsrManifest(**fields)  # type: ignore[arg-type]
    write(manifest, directory)
    return manifest


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The three places of the search order, empty, in a temporary directory."""
    user = tmp_path / "share" / "hearsay" / "models"
    found = {"search": tmp_path / "search", "user": user, "bundled": tmp_path / "bundled"}
    for path in found.values():
        path.mkdir(parents=True)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    monkeypatch.setenv(store.SEARCH_PATH, os.pathsep.join([str(tmp_path / "absent"), str(found["search"])]))
    monkeypatch.setattr(store, "BUNDLED", found["bundled"])
    return found


def test_a_whole_model_verifies(tmp_path: Path):
    """verify reads every listed file, in folders too, and returns the manifest."""
    written = build(tmp_path / "tiny")
    assert integrity.verify(tmp_path / "tiny") == written


def test_the_first_place_of_the_search_order_wins(places: dict[str, Path]):
    """A name is looked up in HEARSAY_MODELS, then the user's directory, then the bundled models."""
    build(places["bundled"] / "tiny")
    assert store.find("tiny") == places["bundled"] / "tiny"
    build(places["user"] / "tiny")
    assert store.find("tiny") == places["user"] / "tiny"
    build(places["search"] / "tiny")
    assert store.find("tiny") == places["search"] / "tiny"
    assert [(model.name, model.origin) for model in store.available()] == [("tiny", "search path")]


def test_a_search_path_entry_may_be_a_model_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """An entry with a model.json is the model of its directory's name."""
    build(tmp_path / "lone")
    monkeypatch.setenv(store.SEARCH_PATH, str(tmp_path / "lone"))
    assert store.find("lone") == tmp_path / "lone"


def test_a_directory_is_taken_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Paths need no search path: absolute, relative, and bare in the working directory."""
    build(tmp_path / "here")
    monkeypatch.chdir(tmp_path)
    assert store.find(str(tmp_path / "here")) == tmp_path / "here"
    assert store.find(tmp_path / "here") == tmp_path / "here"
    assert store.find("./here").resolve() == tmp_path / "here"
    assert store.find("here").resolve() == tmp_path / "here"


def test_what_is_not_found_is_said(places: dict[str, Path], tmp_path: Path):
    """The error of an unknown name lists the known ones; the error of a directory says what it lacks."""
    build(places["user"] / "tiny")
    with pytest.raises(store.ModelNotFound, match="no model named 'huge'; found: tiny"):
        store.find("huge")
    with pytest.raises(store.ModelNotFound, match="holds no model.json"):
        store.find(tmp_path)
    with pytest.raises(store.ModelNotFound, match="no such directory"):
        store.find(str(tmp_path / "nowhere"))


@pytest.mark.parametrize("name", sorted(CONTENTS))
@pytest.mark.parametrize("fault", ["changed", "shorter", "missing"])
def test_a_damaged_file_is_named(tmp_path: Path, name: str, fault: str):
    """One flipped byte, one byte less or no file: the error names the file."""
    path = tmp_path / "tiny"
    build(path)
    content = CONTENTS[name]
    if fault == "missing":
        (path / name).unlink()
    else:
        (path / name).write_bytes(content[:-1] if fault == "shorter" else bytes([content[0] ^ 1]) + content[1:])
    with pytest.raises(ManifestError, match=name):
        integrity.verify(path)


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../other", "a/../../b", "C:\\x", "C:x", "..\\x", "a//b", "", ".", "a/", "a\0b"]
)
def test_names_that_leave_the_directory_are_refused(tmp_path: Path, name: str):
    """A manifest from elsewhere cannot make the store read or write outside its directory."""
    with pytest.raises(ManifestError, match="leaves the model directory"):
        member(tmp_path, name)
    build(tmp_path / "evil", files={name: File(1, "00")})
    with pytest.raises(ManifestError, match="leaves the model directory"):
        integrity.load_manifest(tmp_path / "evil")


@given(st.text(max_size=30))
def test_a_member_never_lies_outside(name: str):
    """Any name gives an error or a path below the directory."""
    root = Path("/models/tiny")
    try:
        path = member(root, name)
    except ManifestError:
        return
    assert Path(os.path.normpath(path)).is_relative_to(root) and os.path.normpath(path) != str(root)


def test_only_the_users_models_are_removed(places: dict[str, Path]):
    """remove deletes in the user's directory and refuses everywhere else."""
    build(places["user"] / "mine")
    build(places["bundled"] / "shipped")
    assert store.remove("mine") == places["user"] / "mine"
    assert not (places["user"] / "mine").exists()
    with pytest.raises(store.StoreError, match="bundled"):
        store.remove("shipped")
    assert (places["bundled"] / "shipped" / "model.json").is_file()
    with pytest.raises(store.ModelNotFound, match="'mine'"):
        store.remove("mine")
    for name in ("..", "../user", "/", ""):
        with pytest.raises(store.StoreError, match="model name"):
            store.remove(name)


@pytest.fixture
def put(places: dict[str, Path]) -> Callable[[], Path]:
    """Put a model of another licence in the place of "tiny", as the end of a pull does, and return the place."""

    def put() -> Path:
        staging = places["user"] / ".pull-1"
        shutil.rmtree(staging, ignore_errors=True)
        build(staging, licence="MIT")
        store.put(staging, places["user"] / "tiny")
        return places["user"] / "tiny"

    return put


def licence(path: Path) -> str:
    """The licence, by which two models of the same name are told apart."""
    return read(path).licence


def test_a_pulled_model_takes_the_place_of_a_directory_a_link_and_what_was_left(
    places: dict[str, Path], tmp_path: Path, put: Callable[[], Path]
):
    """A new model replaces a directory or a link, but not what the link leads to, and nothing else is left there."""
    target = places["user"] / "tiny"
    build(target)
    assert licence(put()) == "MIT"
    shutil.rmtree(target)
    build(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    assert put() == target
    assert not target.is_symlink() and licence(target) == "MIT"
    assert licence(tmp_path / "elsewhere") == "Apache-2.0"
    target.rename(target.with_name(".replaced-tiny"))
    assert licence(put()) == "MIT"
    assert [path.name for path in places["user"].iterdir()] == ["tiny"]


@pytest.mark.parametrize("crash", [1, 2])
def test_a_crash_while_a_model_is_replaced_leaves_one(
    places: dict[str, Path], put: Callable[[], Path], monkeypatch: pytest.MonkeyPatch, crash: int
):
    """After a crash at either rename the name still leads to the old model, and the next pull brings the new one."""
    build(places["user"] / "tiny")
    rename, calls = Path.rename, 0

    def crashing(self: Path, target: Path) -> Path:
        nonlocal calls
        calls += 1
        if calls == crash:
            raise KeyboardInterrupt
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", crashing)
        with pytest.raises(KeyboardInterrupt):
            put()
    assert licence(store.find("tiny")) == "Apache-2.0"
    assert [model.name for model in store.available()] == ["tiny"]
    assert licence(put()) == "MIT"
    assert store.find("tiny") == places["user"] / "tiny"


def test_a_model_that_was_left_by_a_crash_is_removed_by_its_name(places: dict[str, Path]):
    build(places["user"] / ".replaced-tiny")
    assert store.available()[0].name == "tiny"
    store.remove("tiny")
    assert list(places["user"].iterdir()) == []


def test_what_a_pull_left_is_removed_by_its_name(places: dict[str, Path]):
    store.pulling("tiny").mkdir(parents=True)
    assert store.remove("tiny") == places["user"] / "tiny"
    assert list(places["user"].iterdir()) == []


def test_what_would_bring_a_model_is_said(places: dict[str, Path], tmp_path: Path):
    """The error says what would bring a release, a checkpoint, or a name that is nearly one; pulled releases are found
    by name and repository."""
    for name in ("qwen3-asr-0.6b", "Qwen/Qwen3-ASR-0.6B", "QWEN3-ASR-0.6B"):
        with pytest.raises(store.ModelNotFound, match=r"hearsay models pull qwen3-asr-0\.6b brings it \(1\.9 GB"):
            store.find(name)
    build(places["user"] / "qwen3-asr-0.6b")
    for name in ("qwen3-asr-0.6b", "Qwen/Qwen3-ASR-0.6B", "QWEN3-ASR-0.6B"):
        assert store.find(name) == places["user"] / "qwen3-asr-0.6b"
    with pytest.raises(store.ModelNotFound, match=r"did you mean qwen3-asr-0\.6b or"):
        store.find("qwen-asr-0.6b")
    with pytest.raises(
        store.ModelNotFound, match="if it is a repository, hearsay models pull someone/theirs brings it"
    ):
        store.find("someone/theirs")
    checkpoint = tmp_path / "Qwen3-ASR-0.6B"
    checkpoint.mkdir()
    (checkpoint / "model.safetensors").write_bytes(b"")
    with pytest.raises(
        store.ModelNotFound, match=f"is a checkpoint, not yet a model: hearsay models pull {checkpoint}"
    ):
        store.find(str(checkpoint))


@pytest.mark.parametrize(
    ("platform", "environment", "tail"),
    [
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/hearsay/models"),
        ("linux", {"XDG_DATA_HOME": "", "HOME": "/home/u"}, "/home/u/.local/share/hearsay/models"),
        ("darwin", {"HOME": "/Users/u"}, "/Users/u/Library/Application Support/hearsay/models"),
        ("win32", {"LOCALAPPDATA": "/AppData/Local"}, "/AppData/Local/hearsay/models"),
    ],
)
def test_the_users_directory_follows_the_platform(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], tail: str
):
    """XDG on Linux, Application Support on macOS, LOCALAPPDATA on Windows."""
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert store.user_directory().as_posix() == tail
