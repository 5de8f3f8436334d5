"""Words to sounds: irregular ones, acronyms, endings, words that are read in two ways, foreign letters."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codec.sounds.line import line
from codec.sounds.reader import Reader
from codec.sounds.symbols import SYMBOLS
from tests.codec.sounds.voices import reader

WORDS = [row.split("\t") for row in (Path(__file__).parent / "words.tsv").read_text(encoding="utf-8").splitlines()]
"""Words whose spelling misleads, and their sounds, checked one by one against what dictionaries for people say."""
ACRONYMS = (
    "BBC NHS FBI CIA CEO CFO API URL PDF TV UK EU USA DNA HTML HTTP CSS GPU CPU USB VPN DVD ATM ABC CNN IBM MIT UCLA"
    " NYU NBA NFL VIP FAQ DIY HIV MRI PhD RSVP XML SMS"
).split()


LETTERS = dict(
    zip(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (
            "ay bee see dee ee eff gee aitch eye jay kay ell em en oh pee cue ar ess tee you vee double-you ex why zee"
        ).split(),
        strict=True,
    )
)
"""The names of letters, written out."""


def spoken(word: str) -> str:
    """A guess that says nothing of the word."""
    return "ˈʌ"


def bare(sounds: str) -> str:
    """Without stress and spaces."""
    return sounds.translate(str.maketrans("", "", "ˈˌ "))


def test_there_are_words_enough() -> None:
    """Of both kinds."""
    assert len(WORDS) >= 280 and len(ACRONYMS) == 40


@pytest.mark.parametrize(("word", "sounds"), WORDS)
def test_irregular_words_sound_as_they_are_said(word: str, sounds: str) -> None:
    """Found in the dictionary or made by a rule, never guessed."""
    assert reader().read(word) == sounds


@pytest.mark.parametrize("acronym", ACRONYMS)
def test_acronyms_are_the_names_of_their_letters(acronym: str) -> None:
    """As if the names were written out: "bee bee see"."""
    names = [LETTERS[letter] for letter in acronym.upper()]
    assert bare(reader().read(acronym)) == bare("".join(reader().read(name) for name in names))


def test_an_acronym_is_one_word_that_is_strong_at_its_end() -> None:
    """Up to five letters; longer rows fall into words of three and four."""
    assert reader().read("BBC") == "bˌibˌisˈi"
    assert reader().read("XQRTZB").count(" ") == 1 and reader().read("XQRTZB").count("ˈ") == 2


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("NASA", "nˈæsə"),
        ("NATO", "nˈATO"),
        ("PIN", "pˈɪn"),
        ("JPEG", "ʤˈApˌɛɡ"),
        ("SQL", "sˈikwəl"),
        ("JSON", "ʤˈAsᵊn"),
    ],
)
def test_some_acronyms_are_words(word: str, sounds: str) -> None:
    """By a list: the dictionary's."""
    assert reader().read(word) == sounds


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("APIs", "ˌApˌiˈIz"), ("CEOs", "sˌiˌiˈOz"), ("BBC's", "bˌibˌisˈiz"), ("NHS's", "ˌɛnˌAʧˈɛsᵻz"),
        ("IDs", "ˌIdˈiz"),
        ("chefs", "ʃˈɛfs"), ("chef's", "ʃˈɛfs"), ("judges'", "ʤˈʌʤᵻz"), ("boss's", "bˈɔsᵻz"), ("churches", "ʧˈɜɹʧᵻz"),
        ("Houston's", "hjˈustənz"), ("choirs", "kwˈIəɹz"), ("queues", "kjˈuz"),
        ("Obamas'", "Obˈɑməz"), ("PIN's", "pˈɪnz"),
        ("machines", "məʃˈinz"), ("photos", "fˈOTOz"), ("ladies'", "lˈAdiz"), ("résumés", "ɹˈɛzəmˌAz"),
    ],
)  # fmt: skip
def test_plurals_and_possessives_are_like_what_they_are_of(word: str, sounds: str) -> None:
    """With s, z or ᵻz by the sound before."""
    weak = str.maketrans("ᵊᵻ", "əə")  # the dictionaries write them so and so
    assert reader().read(word).translate(weak) == sounds.translate(weak)


@pytest.mark.parametrize(
    ("word", "sounds"),
    [
        ("unfriended", "ˌʌnfɹˈɛndᵻd"), ("googled", "ɡˈuɡᵊld"), ("podcasting", "pˈɑdkˌæstɪŋ"), ("doin'", "dˈuɪn"),
        ("civilisation", "sˌɪvələzˈAʃən"), ("rewatched", "ɹiwˈɑʧt"), ("cyberattacks", "sˈIbəɹətˌæks"),
        ("YouTube", "jˈutˌub"), ("ChatGPT", "ʧˈæt ʤˌipˌitˈi"), ("iPhone", "ˈIfˌOn"), ("Wi-Fi", "wˈIfˌI"),
        ("well-known", "wˈɛl nˈOn"), ("re-enter", "ɹˌi ˈɛntəɹ"), ("T-shirt", "tˈi ʃˈɜɹt"), ("X-ray", "ˈɛks ɹˈA"),
        ("Łukasz", "wˈukɑʃ"), ("Łódź", "wˈuʤ"), ("façade", "fəsˈɑd"), ("jalapeño", "hˌæləpˈinjO"),
        ("Pelé", "pˈɛlˌA"), ("O'Dowd", "OdˈWd"),
    ],
)  # fmt: skip
def test_words_that_no_dictionary_has_are_made_of_others(word: str, sounds: str) -> None:
    """Endings, prefixes, compounds, British spellings, parts, folded letters."""
    assert reader().read(word) == sounds


SENTENCES = [
    ("He has read the book", "read", "ɹˈɛd"),
    ("She will read the book", "read", "ɹˈid"),
    ("They read it to me", "read", "ɹˈid"),
    ("Mary read it to me", "read", "ɹˈɛd"),
    ("They live in Rome", "live", "lˈɪv"),
    ("It was a live show", "live", "lˈIv"),
    ("Please close the door", "close", "klˈOz"),
    ("The shop is close to us", "close", "klˈOs"),
    ("We use it daily", "use", "jˈuz"),
    ("It is of no use", "use", "jˈus"),
    ("They record a song", "record", "ɹəkˈɔɹd"),
    ("That was a record", "record", "ɹˈɛkəɹd"),
    ("I present the facts", "present", "pɹizˈɛnt"),
    ("It was a present", "present", "pɹˈɛzᵊnt"),
    ("They object to that", "object", "əbʤˈɛkt"),
    ("It is an object", "object", "ˈɑbʤəkt"),
    ("You can tear it up", "tear", "tˈɛɹ"),
    ("He shed a tear", "tear", "tˈɪɹ"),
    ("To wind the clock", "wind", "wˈInd"),
    ("A cold wind blew", "wind", "wˈɪnd"),
    ("He wound it up", "wound", "wˈWnd"),
    ("It was a deep wound", "wound", "wˈund"),
    ("To lead them all", "lead", "lˈid"),
    ("They refuse to go", "refuse", "ɹəfjˈuz"),
    ("We must separate them", "separate", "sˈɛpəɹˌAt"),
    ("In separate rooms", "separate", "sˈɛpəɹət"),
    ("They estimate the cost", "estimate", "ˈɛstəmˌAt"),
    ("It was an estimate", "estimate", "ˈɛstəmət"),
    ("Their lives changed", "lives", "lˈIvz"),
    ("She lives in Rome", "lives", "lˈɪvz"),
    ("A minute later", "minute", "mˈɪnət"),
    ("The bass is loud", "bass", "bˈAs"),
    ("We polish it", "polish", "pˈɑlɪʃ"),
    ("He is Polish", "Polish", "pˈOlɪʃ"),
    ("I don't project that", "project", "pɹəʤˈɛkt"),
    ("The project is late", "project", "pɹˈɑʤˌɛkt"),
]


@pytest.mark.parametrize(("sentence", "word", "sounds"), SENTENCES)
def test_words_with_two_ways_are_read_by_the_words_before(sentence: str, word: str, sounds: str) -> None:
    """Never by a word after: what is read does not wait."""
    words = sentence.split()
    place = words.index(word)
    assert line(sentence, reader()).split()[place] == sounds


def test_weak_words_are_strong_before_a_mark() -> None:
    """And letters are letters where an article cannot be."""
    assert line("What for? I am. The, a, to, in.", reader()) == " wˌʌt fˈɔɹ? ˌI ˈæm. ðˈi, ˈA, tˈu, ˈɪn."
    assert line("A plan A for the A team", reader()) == " ɐ plˈæn ˈA fɔɹ ðə ˈA tˈim"


def test_what_is_shouted_are_words() -> None:
    """Unless it is known to be letters, and no shout goes before."""
    assert line("PLEASE HELP US NOW", reader()) == " plˈiz hˈɛlp ˌʌs nˈW"
    assert line("The US has IT", reader()) == " ðə jˌuˈɛs hæz ˌItˈi"


@given(st.text(st.sampled_from("aeoBdsT'-’éß你3 "), max_size=12), st.booleans())
@example("D'Aß", False)
@example("T'", True)
def test_only_sounds_come_out(word: str, marked: bool) -> None:
    """Of whatever is given; what has letters has sounds, other things have none."""
    said = reader(spoken).read(word, ["the"], marked=marked)
    assert set(said) <= SYMBOLS | {" "} and said == " ".join(said.split())
    assert bool(said) == any(c in "aeoBdsTéß" for c in word)


def test_a_word_as_long_as_a_book_is_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """65,536 letters: no part is longer than a word can be, and no rule looks at the whole."""
    seen: list[int] = []

    def guess(word: str) -> str:
        seen.append(len(word))
        return "ˈʌ"

    guessing = reader(guess)
    assert guessing.read("bcdefgh" * 9363).count(" ") >= 1000
    assert max(seen) <= 64


def test_a_users_word_comes_first() -> None:
    """Its plural and possessive too, in any case, alone or between hyphens."""
    own = {"houston": "hjˈustˌʌn", "gif": "ʤˈɪf", "resume": "x", "beyonce": "bˈɛns"}
    for written, sounds in (
        ("Houston", "hjˈustˌʌn"), ("HOUSTON'S", "hjˈustˌʌnz"), ("GIFs", "ʤˈɪfs"), ("non-GIF", "nˌɑn ʤˈɪf"),
        ("Beyoncé", "bˈɛns"), ("Beyoncé’s", "bˈɛnsᵻz"), ("résumé", "x"),
    ):  # fmt: skip
        assert Reader.read(reader(), written, own=own) == sounds
