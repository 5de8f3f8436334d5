"""What codes depend on, and what not: seed, voice and text; neither how the text arrived nor who else speaks."""

from concurrent.futures import ThreadPoolExecutor

from hypothesis import given, settings
from hypothesis import strategies as st

from codec.model import TtsModel
from codec.options import SpeakOptions
from codec.sampling import Sampling
from codec.talker import TalkerStep
from engines.lane import Steps
from tests.codec.talking import SHORT_TEXT, TEXT, Codes, heard, say
from tests.lanes import held, until_waiting


def test_a_seed_names_the_audio(tts_model: TtsModel, spoken: Codes) -> None:
    """The same seed gives the same codes, another seed others, where there is something to draw; without a seed one is
    drawn and told."""
    made = list[list[list[int]]]()
    for seed in (11, 11, 12):
        spoken.clear()
        say(tts_model, TEXT, SpeakOptions(seed=seed, sampling=Sampling(temperature=1.0)))
        made.append([codes for piece in spoken.values() for codes in piece])
    first, again, other = made
    assert first == again
    assert first != other
    assert len({tuple(codes) for codes in first if codes}) > 20
    speaker = tts_model.speaker()
    assert 0 <= speaker.seed < 2**63
    speaker.close()


@settings(max_examples=3)
@given(cuts=st.lists(st.integers(1, 20), min_size=1, max_size=5))
def test_cutting_the_text_changes_no_code(tts_model: TtsModel, cuts: list[int]) -> None:
    """Text that arrives in deltas, with the talker stalling between, is spoken like text that was there."""
    options = SpeakOptions(seed=3)
    codes: list[list[list[int] | None]] = []
    frame = tts_model.engine.frame
    for these in (None, cuts):
        made: list[list[int] | None] = []

        def watched(step: TalkerStep, made: list[list[int] | None] = made) -> Steps[list[int] | None]:
            made.append((yield from frame(step)))
            return made[-1]

        tts_model.engine.frame = watched  # type: ignore[method-assign]
        try:
            events = say(tts_model, SHORT_TEXT, options, these)
        finally:
            del tts_model.engine.frame
        assert heard(events).size
        codes.append(made)
    assert codes[0] == codes[1]


def test_alone_and_among_eight_the_codes_are_the_same(tts_model: TtsModel, spoken: Codes) -> None:
    """Eight voices in one batch: each draws what it draws alone, bit for bit (q8_0)."""
    texts = [f"Voice number {i} speaks up." for i in range(8)]
    say_one = [lambda i=i: say(tts_model, texts[i], SpeakOptions(seed=i)) for i in range(8)]
    for one in say_one:
        one()
    alone = list(spoken.values())
    spoken.clear()
    engine = tts_model.engine
    lane = engine.lane
    before = lane.batches, lane.jobs
    with ThreadPoolExecutor(8) as pool:
        with held(lane):  # All eight are in the queue before the lane takes one.
            saying = [pool.submit(one) for one in say_one]
            until_waiting(lane, 8)
        for done in saying:
            done.result()
    crowd = list(spoken.values())
    assert sorted(crowd) == sorted(alone)
    assert len({str(codes) for codes in alone}) == 8
    assert (lane.jobs - before[1]) - (lane.batches - before[0]) >= 7


def test_greedy_codes_need_no_seed(tts_model: TtsModel, spoken: Codes) -> None:
    """Greedy decoding is a function of the text."""
    for seed in (1, 2):
        say(tts_model, SHORT_TEXT, SpeakOptions(seed=seed, sampling=Sampling(greedy=True)))
    first, again = spoken.values()
    assert first == again


def test_voices_sound_different(tts_model: TtsModel, spoken: Codes) -> None:
    """The speaker's row reaches the talker."""
    presets = [voice.id for voice in tts_model.voices.listed() if voice.kind == "preset"]
    assert len(presets) >= 2
    for voice in presets:
        say(tts_model, SHORT_TEXT, SpeakOptions(voice=voice, seed=1))
    assert len({str(codes) for codes in spoken.values()}) == len(presets)
