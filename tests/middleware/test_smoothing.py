"""Words at an even pace; nothing lost, nothing left."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream.events import ReasoningDelta, ReasoningEnd, ReasoningStart, TextDelta, TextEnd, TextStart
from llmstream.grammar import check
from llmstream.middleware import LINE, smooth, wrap
from llmstream.simulator import Call, Turn
from llmstream.testing import Cut, ScriptedModel, no_leaks


class Clock:
    """Time that passes only in sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)


def said(*pieces: str, **options: Any) -> Turn:
    deltas = [TextDelta(piece, "0") for piece in pieces]
    return Turn(events=(TextStart("0"), *deltas, TextEnd("0"), ls.Finish("stop")), **options)


def fragments(seen: Any) -> list[str]:
    return [event.delta for event in seen.of(TextDelta)]


async def smoothed(read: Any, *pieces: str, **options: Any) -> tuple[list[str], Clock]:
    clock = Clock()
    middleware = smooth(0.01, clock=clock, sleep=clock.sleep, **options)
    return fragments(await read(wrap(ScriptedModel(said(*pieces)), middleware))), clock


async def test_lumps_become_words_with_pauses(read: Any) -> None:
    got, clock = await smoothed(read, "one two thr", "ee four five")
    assert got == ["one", " two", " three", " four", " five"]
    assert clock.slept == pytest.approx([0.01] * 3)  # the last is given at once: the text is over


async def test_long_runs_do_not_wait_for_the_end(read: Any) -> None:
    """Scripts without spaces do not wait either."""
    got, _ = await smoothed(read, "你好 and", "x" * 100)
    assert got[:2] == ["你", "好"]
    assert max(map(len, got)) <= 41
    assert "".join(got) == "你好 and" + "x" * 100


async def test_lines_and_patterns_are_pieces_too(read: Any) -> None:
    assert (await smoothed(read, "a b\nc", " d\ne", piece=LINE))[0] == ["a b\n", "c d\n", "e"]
    assert (await smoothed(read, "abcd", piece=re.compile("..")))[0] == ["ab", "cd"]


async def test_incomplete_piece_is_not_held_on(read: Any) -> None:
    got, _ = await smoothed(read, *["x" * 400] * 4, piece=LINE)
    assert got == ["x" * 1200, "x" * 400]


async def test_model_that_is_ahead_is_not_delayed(read: Any) -> None:
    _, clock = await smoothed(read, *["word "] * 2000)
    assert clock.now - 100 < 2000 * 0.01 * 0.5
    assert clock.slept[:90] == pytest.approx([0.01] * 90)


async def test_waiting_text_precedes_other_events(read: Any) -> None:
    clock = Clock()
    events = (
        ReasoningStart("r"),
        ReasoningDelta("so it is", "r"),
        ReasoningEnd("r"),
        TextStart("0"),
        TextDelta("a b", "0"),
        TextDelta("c", "0", {"v": {"k": 1}}),
        TextDelta("d e", "0"),
        TextEnd("0"),
        ls.Finish("stop"),
    )
    model = wrap(ScriptedModel(Turn(events=events)), smooth(0.01, clock=clock, sleep=clock.sleep))
    seen = await read(model)
    assert [e for e in seen.events if isinstance(e, ReasoningDelta | TextDelta)] == [
        ReasoningDelta("so", "r"),
        ReasoningDelta(" it", "r"),
        ReasoningDelta(" is", "r"),
        TextDelta("a", "0"),
        TextDelta(" b", "0"),
        TextDelta("c", "0", {"v": {"k": 1}}),
        TextDelta("d", "0"),
        TextDelta(" e", "0"),
    ]


async def test_a_call_follows_the_whole_text(read: Any) -> None:
    clock = Clock()
    model = ScriptedModel(Turn(text="Let me see", calls=(Call("f", {"a": 1}),)))
    seen = await read(wrap(model, smooth(0.01, clock=clock, sleep=clock.sleep)))
    assert seen.text == "Let me see"
    assert seen.of(ls.ToolCall)


@given(st.text(" \nab好", max_size=60), st.data(), st.integers(0, 12))
async def test_nothing_is_lost_at_any_cut_or_break(text: str, data: st.DataObject, broken: int) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    clock = Clock()
    for fault in (None, Cut(after_events=broken)):
        model = ScriptedModel(said(*pieces, fault=fault), repeat_last=True)
        plain = [event async for event in model.events("Hi", errors="events")]
        paced = wrap(model, smooth(0.01, clock=clock, sleep=clock.sleep))
        events = [event async for event in paced.events("Hi", errors="events")]
        assert check(events) == []
        texts = ["".join(e.delta for e in found if isinstance(e, TextDelta)) for found in (plain, events)]
        assert texts[0] == texts[1]
        others = [[e for e in found if not isinstance(e, TextDelta)] for found in (plain, events)]
        assert others[0] == others[1]


@pytest.mark.llm_virtual_clock
async def test_leaving_in_a_pause_leaves_no_timer() -> None:
    model = wrap(ScriptedModel(said("one two three four")), smooth(60.0))
    async with no_leaks(), model.stream("Hi") as stream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await stream.collect()
    assert stream.text == "one"
    timers = getattr(asyncio.get_running_loop(), "_scheduled")
    assert [timer for timer in timers if not timer.cancelled()] == []


@pytest.mark.parametrize("delay_s", [-1, float("nan")])
def test_a_pause_is_not_negative(delay_s: float) -> None:
    with pytest.raises(ls.InvalidRequest):
        smooth(delay_s)
