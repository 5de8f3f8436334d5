"""The web page as it is served: its files, its headers, its origin (clients_outside/test_page.py: what it does)."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin, Subprotocol

from daemon.page.files import FILES, HEADERS
from daemon.serve import Background
from tests.daemon.support import HTTP, PATIENT, RATE, Client

Start = Callable[..., AbstractContextManager[Background]]

KEY = "a-good-key.of_ours~"
FOLDER = Path(__file__).parents[2] / "daemon" / "page"
STATIC = sorted(path.name for path in FOLDER.iterdir() if path.suffix in (".html", ".css", ".js", ".svg"))


@pytest.fixture(scope="module")
def guarded(start: Start) -> Iterator[Background]:
    with start(api_key=(KEY,), allowed_origins=("https://example.org",)) as background:
        yield background


class Inline(HTMLParser):
    """Collects what a Content-Security-Policy without ``unsafe-inline`` would not run, and addresses elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.links: list[str] = []
        self.labels: set[str] = set()
        self.fields: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.found += [f"<{tag} {name}>" for name in given if name == "style" or name.startswith("on")]
        if tag == "style" or (tag == "script" and not given.get("src")):
            self.found.append(f"<{tag}>")
        self.links += [given[name] or "" for name in ("src", "href", "action") if name in given]
        if tag == "label" and given.get("for"):
            self.labels.add(given["for"] or "")
        if tag in ("input", "select", "textarea"):
            self.fields.add(given.get("id") or "")


def test_the_page_and_all_its_files_are_served_without_a_key(guarded: Background) -> None:
    assert HTTP.get(guarded.url + "/").content == (FOLDER / "index.html").read_bytes()
    for name in STATIC:
        answer = HTTP.get(f"{guarded.url}/page/{name}")
        assert answer.status_code == 200
        assert answer.content == (FOLDER / name).read_bytes()
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert sorted(FILES) == STATIC
    assert HTTP.get(f"{guarded.url}/page/page.js").headers["content-type"].startswith("text/javascript")


@pytest.mark.parametrize("name", ["files.py", "__init__.py", "../app.py", "%2e%2e/app.py", "..%2fx", "", "x" * 999])
def test_nothing_else_is(guarded: Background, name: str) -> None:
    assert HTTP.get(f"{guarded.url}/page/{name}").status_code in (401, 404)


def test_who_has_a_file_already_is_told_so(guarded: Background) -> None:
    tag = HTTP.get(guarded.url + "/page/page.css").headers["etag"]
    again = HTTP.get(guarded.url + "/page/page.css", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert HTTP.head(guarded.url + "/").status_code == 200
    assert HTTP.post(guarded.url + "/").status_code == 405


def test_the_policy_lets_nothing_in_and_the_page_needs_nothing() -> None:
    """Nothing inline, nothing from elsewhere; no file names another host."""
    policy = HEADERS["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy and "*" not in policy
    html = Inline()
    html.feed((FOLDER / "index.html").read_text(encoding="utf-8"))
    assert not html.found
    assert set(html.links) == {f"page/{name}" for name in ("mark.svg", "page.css", "page.js")}
    for name in STATIC:
        text = (FOLDER / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|innerHTML|insertAdjacentHTML|\beval\(", text), name


def test_every_field_has_a_label() -> None:
    html = Inline()
    html.feed((FOLDER / "index.html").read_text(encoding="utf-8"))
    wrapped = {"typing", "speakers"}  # stand inside their labels
    assert html.fields - wrapped == html.labels


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out_from_what_it_stands_on(scheme: str) -> None:
    """WCAG AA: 4.5 : 1 for text, 3 : 1 for the edges of fields."""
    css = (FOLDER / "page.css").read_text(encoding="utf-8")
    blocks = re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    color = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[0]))
    if scheme == "dark":
        color |= dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", blocks[1]))
    for ink in ("ink", "soft", "accent", "live"):
        for ground in ("paper", "sheet"):
            assert contrast(color[ink], color[ground]) >= 4.5, (ink, ground)
    assert contrast(color["accent-ink"], color["accent"]) >= 4.5
    assert contrast(color["warn-ink"], color["warn"]) >= 4.5
    assert contrast(color["edge"], color["sheet"]) >= 3


def contrast(one: str, other: str) -> float:
    """WCAG's ratio of two colours."""

    def luminance(color: str) -> float:
        parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


# ------------------------------------------------------------------------------------------------------- its own origin


def status(background: Background, origin: str, **headers: str) -> int:
    """What a call with the key from a page of ``origin`` is answered."""
    given = {"Authorization": f"Bearer {KEY}", "Origin": origin, **headers}
    return HTTP.get(background.url + "/v1/models", headers=given).status_code


def test_a_call_from_the_page_itself_passes(guarded: Background) -> None:
    port = guarded.url.rpartition(":")[2]
    assert status(guarded, guarded.url) == 200
    assert status(guarded, f"http://localhost:{port}", Host=f"localhost:{port}") == 200
    assert status(guarded, "https://localhost", Host="localhost") == 200, "a proxy that ends TLS"
    assert status(guarded, "http://[::1]:9", Host="[::1]:9") == 200
    with connect(
        f"{Client(guarded.url).socket_url}/v1/listen?encoding=linear16&sample_rate={RATE}",
        proxy=None,
        origin=Origin(guarded.url),
        subprotocols=[Subprotocol("token"), Subprotocol(KEY)],
        **PATIENT,
    ):
        pass


def test_a_call_from_any_other_page_does_not(guarded: Background) -> None:
    port = guarded.url.rpartition(":")[2]
    host = f"localhost:{port}"
    for origin in (
        f"http://localhost:{int(port) - 1}",  # another server of this machine
        f"http://127.0.0.1:{port}",  # ours, under a name that this request does not use
        "http://localhost",
        f"ftp://{host}",
        f"http://{host}.evil.example",
        f"http://evil.example/{host}",
        f"http://x@{host}",
        host,
        "null",
        "",
    ):
        assert status(guarded, origin, Host=host) == 403, origin
    assert status(guarded, "http://evil.example", Host="evil.example") == 403
    with (
        pytest.raises(InvalidStatus) as error,
        connect(
            f"{Client(guarded.url).socket_url}/v1/listen", proxy=None, origin=Origin("http://localhost:1"), **PATIENT
        ),
    ):
        pass
    assert error.value.response.status_code == 403


def test_its_origin_alone_opens_nothing(guarded: Background) -> None:
    answer = HTTP.get(guarded.url + "/v1/models", headers={"Origin": guarded.url})
    assert answer.status_code == 401


def test_a_host_that_only_a_star_allows_is_not_the_page_s_own(start: Start) -> None:
    """With ``*`` any name passes as Host, also one that somebody else had resolved to this machine."""
    with start(allowed_hosts=("*",)) as background:
        rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
        assert HTTP.get(background.url + "/v1/models", headers=rebound).status_code == 403
        assert HTTP.get(background.url + "/v1/models", headers={"Origin": background.url}).status_code == 200
    with start(allowed_hosts=("hear.example",)) as background:
        own = {"Host": "hear.example", "Origin": "https://hear.example"}
        assert HTTP.get(background.url + "/v1/models", headers=own).status_code == 200


def test_the_page_is_not_served_to_a_foreign_host(guarded: Background) -> None:
    answer: Any = HTTP.get(guarded.url + "/", headers={"Host": "evil.example"})
    assert answer.status_code == 403
