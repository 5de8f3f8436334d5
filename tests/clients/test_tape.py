"""What a lost session may need again: whatever is recorded, sent, made final and lost, in any order."""

from hypothesis import given
from hypothesis import strategies as st

from clients.tape import GRID_SECONDS, Tape

RATE, FRAME, KEEP = 1000, 4, 1.0
ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("record"), st.integers(1, 400)),
        st.tuples(st.just("take"), st.integers(1, 3)),
        st.tuples(st.just("final"), st.floats(0, 1)),
        st.tuples(st.just("finalize"), st.just(0)),
        st.tuples(st.just("lose"), st.just(0)),
    ),
    max_size=60,
)


@given(ACTIONS)
def test_a_session_gets_the_audio_from_the_last_final_on_in_order(actions: list[tuple[str, float]]) -> None:
    """Once, without a gap, Finalizes at their places; no more is kept than was said, and what is missing is told."""
    tape = Tape(RATE, FRAME, KEEP)
    recorded, now, final, missed = bytearray(), 0.0, 0, 0.0
    begin, sent = 0, bytearray()
    unanswered: list[int] = []
    asked: list[int] = []

    def take() -> bool:
        piece = tape.take(now)
        if piece == "Finalize":
            asked.append(begin + len(sent))
        elif piece is not None:
            assert isinstance(piece, bytes)
            sent.extend(piece)
        return piece is not None

    def check() -> None:
        assert recorded[begin:].startswith(sent)
        assert asked == [max(mark, begin) for mark in unanswered][: len(asked)]

    for action, value in actions:
        now += 0.1
        match action:
            case "record" if not tape.full(now):
                recorded += bytes((len(recorded) + i) % 251 for i in range(int(value)))
                tape.record(bytes(recorded[len(recorded) - int(value) :]), now)
            case "take":
                for _ in range(int(value)):
                    take()
            case "final":
                final = max(final, begin + int(value * len(sent)))
                tape.release(final / RATE, now)
            case "finalize":
                if not unanswered or unanswered[-1] != len(recorded):
                    unanswered.append(len(recorded))
                tape.finalize()
            case "lose":
                check()
                missed += tape.rewind()
                begin, sent, asked = round(tape.begin * RATE), bytearray(), []
                assert begin % FRAME == 0
                assert begin <= final + 1 or missed > 0 or now > KEEP, "what is gone is final, told, or was long sent"
            case _:
                pass
        assert tape.seconds <= 2 * KEEP + 0.4
    while take():
        pass
    check()
    assert len(recorded) == begin + len(sent)
    assert asked == [max(mark, begin) for mark in unanswered]


def test_a_new_session_begins_on_the_grid() -> None:
    """Of the frames in which the daemon looks for speech, never behind the end of the final."""
    tape = Tape(32_000, 2, 60.0)
    tape.record(bytes(320_000), 0.0)
    while tape.take(0.0):
        pass
    tape.release(4.934, 0.0)
    assert tape.begin == 154 * GRID_SECONDS and tape.begin <= 4.934 < tape.begin + GRID_SECONDS
    tape.release(5.12, 0.0)
    assert tape.begin == 5.12, "a final that ends on the grid"


def test_a_sender_is_no_further_ahead_than_may_be_kept() -> None:
    """Of the last final, and from then on of live audio; time in which nothing was sent gives no lead."""
    tape = Tape(RATE, FRAME, KEEP)

    def sent(now: float) -> int:
        count = 0
        while not tape.full(now):
            tape.record(bytes(100), now)
            count += 100
            while tape.take(now):
                pass
        return count

    assert sent(100.0) == 1000
    assert sent(100.5) == 500
    tape.release(1.5, 100.5)
    assert sent(100.5) == 1000
    tape.release(2.0, 101.0)
    assert sent(101.0) == 500, "a daemon slower than live audio"
    assert sent(200.0) == 1000
    tape.rewind()
    assert sent(300.0) == 0, "nothing was sent again yet"
    while tape.take(300.0):
        pass
    assert sent(300.2) == 200


def test_an_answer_forgets_its_finalize() -> None:
    tape = Tape(RATE, FRAME, KEEP)
    tape.record(bytes(8), 0.0)
    tape.finalize()
    tape.finalize()
    assert [tape.take(0.0), tape.take(0.0), tape.take(0.0)] == [bytes(8), "Finalize", None]
    tape.answered()
    tape.rewind()
    tape.end()
    assert [tape.take(0.0), tape.take(0.0), tape.take(0.0)] == [bytes(8), "CloseStream", None]
