"""Settings: one place, three sources, a table that tells the truth."""

from pathlib import Path

import pytest

from daemon.config import TYPES, ConfigError, Settings, load, table

DOCS = Path(__file__).parents[2] / "docs"


def test_documentation_holds_the_table_of_all_settings() -> None:
    """Each stands once: what bounds something beside the other limits, the rest in operations.md."""
    others, bounds = table(bounds=False), table(bounds=True)
    assert others in (DOCS / "operations.md").read_text(encoding="utf-8")
    assert bounds in (DOCS / "limits.md").read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in others or f"| `{name}` |" in bounds for name in TYPES)


def test_a_variable_that_is_nearly_a_setting_s_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    """Whose names are unlike any are somebody else's: a client's key, what Kubernetes sets for a service."""
    others = {
        "HEARSAY_KEY": "k",
        "HEARSAY_MODELS": "m",
        "HEARSAY_SERVICE_HOST": "10.0.0.1",
        "HEARSAY_PORT_8750_TCP": "t",
    }
    assert load(None, {"HEARSAY_PROT": "1", "HEARSAY_port": "2", "HEARSAY_DRAIN_SECOND": "3", **others}) == Settings()
    assert [record.getMessage() for record in caplog.records] == [
        "HEARSAY_PROT is no setting, HEARSAY_PORT is one",
        "HEARSAY_port is no setting, HEARSAY_PORT is one",
        "HEARSAY_DRAIN_SECOND is no setting, HEARSAY_DRAIN_SECONDS is one",
    ]


def test_flag_wins_over_environment_over_file(tmp_path: Path) -> None:
    file = tmp_path / "hearsay.toml"
    file.write_text('port = 1\nsessions = 2\nidle_seconds = 3\napi_key = ["from-the-file"]\n')
    environment = {"HEARSAY_SESSIONS": "4", "HEARSAY_IDLE_SECONDS": "5", "HEARSAY_MODELS": "/elsewhere"}
    settings = load(file, environment, {"idle_seconds": 6.5, "host": None})
    assert (settings.port, settings.sessions, settings.idle_seconds) == (1, 4, 6.5)
    assert settings.api_key == ("from-the-file",)
    assert settings.host == "127.0.0.1"


def test_text_becomes_the_type_of_its_setting() -> None:
    environment = {
        "HEARSAY_KEY_IN_QUERY": "off",
        "HEARSAY_API_KEY": "first-key, second-key",
        "HEARSAY_MAX_SESSION_SECONDS": "1e3",
        "HEARSAY_INSECURE": "Yes",
        "HEARSAY_PORT": "",
    }
    settings = load(None, environment)
    assert settings.key_in_query is False and settings.insecure is True
    assert settings.port == 8750, "an empty variable sets nothing"
    assert settings.api_key == ("first-key", "second-key")
    assert settings.max_session_seconds == 1000


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"HEARSAY_PORT": "65536"}, "port: 65536 lies outside 0…65535"),
        ({"HEARSAY_PORT": "many"}, "HEARSAY_PORT: port: 'many' is not a whole number"),
        ({"HEARSAY_IDLE_SECONDS": "nan"}, "idle_seconds: nan lies outside"),
        ({"HEARSAY_IDLE_SECONDS": "soon"}, "HEARSAY_IDLE_SECONDS: idle_seconds: 'soon' is not a number"),
        ({"HEARSAY_INSECURE": "maybe"}, "insecure: 'maybe' is not true or false"),
        ({"HEARSAY_LOG_LEVEL": "loud"}, "log_level: 'loud' is none of critical"),
        ({"HEARSAY_API_KEY": "short"}, "api_key: a key is 8 to 256"),
        ({"HEARSAY_API_KEY": "has space in it"}, "api_key: a key is 8 to 256"),
        ({"HEARSAY_ALLOWED_ORIGINS": "https://example.org/"}, "allowed_origins: 'https://example.org/' is not"),
        ({"HEARSAY_ALLOWED_ORIGINS": "https://Example.org"}, "allowed_origins: 'https://Example.org' is not"),
        ({"HEARSAY_ALLOWED_ORIGINS": "https://*.example.org"}, "allowed_origins: 'https://*.example.org' is not"),
        ({"HEARSAY_ALLOWED_ORIGINS": "https://*"}, "'https://*': a * stands for every page of a scheme other than"),
        ({"HEARSAY_ALLOWED_ORIGINS": "app://*:80"}, "'app://*:80': a * stands for every page of a scheme other than"),
        ({"HEARSAY_ALLOWED_ORIGINS": "https://example.org:443"}, "browsers leave :443 out, as it is that of https"),
        ({"HEARSAY_TLS_KEY": "key.pem"}, "tls_certificate, tls_key: one is set without the other"),
        ({"HEARSAY_HOST": "0.0.0.0"}, "host: 0.0.0.0 is reachable from other machines and no api_key is set"),
        ({"HEARSAY_HOST": "::"}, "host: :: is reachable"),
        ({"HEARSAY_HOST": "example.org"}, "host: example.org is reachable"),
    ],
)
def test_a_wrong_value_is_named_with_its_limit(environment: dict[str, str], says: str) -> None:
    with pytest.raises(ConfigError) as error:
        load(None, environment)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("portt = 1", "portt: no such setting; did you mean port?"),
        ("seconds = 1", "seconds: no such setting; did you mean idle_seconds or "),
        ("colour = 1", "colour: no such setting; hearsay serve --help tells which there are"),
        ("port = true", "port: True is not a whole number"),
        ("port = 1.5", "port: 1.5 is not a whole number"),
        ("api_key = 5", "api_key: 5 is not a list of texts"),
        ("api_key = [5]", "api_key: [5] is not a list of texts"),
        ('insecure = "maybe"', "insecure: 'maybe' is not true or false"),
        ("asr_model = 5", "asr_model: 5 is not a text"),
        ("port =", "Invalid value"),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, content: str, says: str) -> None:
    file = tmp_path / "hearsay.toml"
    file.write_text(content)
    with pytest.raises(ConfigError) as error:
        load(file, {})
    assert says in str(error.value)
    assert str(file) in str(error.value)


def test_a_file_that_cannot_be_read_is_one_plain_sentence(tmp_path: Path) -> None:
    file = tmp_path / "none.toml"
    with pytest.raises(ConfigError) as error:
        load(file, {})
    assert str(error.value) == f"{file} cannot be read: No such file or directory"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "[::1]", "127.8.8.8"])
def test_loopback_needs_no_key(host: str) -> None:
    assert Settings(host=host).loopback


def test_beyond_loopback_with_a_key_or_on_purpose() -> None:
    assert Settings(host="0.0.0.0", api_key=("a-good-key",)).api_key
    assert Settings(host="0.0.0.0", insecure=True).insecure
