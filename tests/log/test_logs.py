"""Runs in a log: produced by one, followed by many, in every store."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llmstream as ls
from llmstream.log import Logs, RunStatus, producer
from tests.log.sources import Gated, answer, followed, told


@pytest.fixture
async def logs(address: str):
    async with ls.open_logs(address) as opened:
        yield opened


async def written(logs: Logs, tail: int) -> RunStatus:
    """Waits until the log has so many events."""
    while (status := await logs.status("answer")) is None or status.tail < tail:
        await asyncio.sleep(0.001)
    return status


async def test_an_agents_run_is_followed(logs: Logs) -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return "snow"

    agent = ls.Agent("sim:demo", tools=[weather])
    live = await logs.start("answer", agent.stream("How is the weather in Oslo?"))
    found = await followed(logs, "answer")
    kinds = {type(event) for event in found}
    assert {ls.StepStart, ls.ToolCall, ls.ToolResult, ls.TextDelta} <= kinds
    assert await live.wait() == "closed"


async def test_the_end_of_a_run_is_waited_for(logs: Logs) -> None:
    source = Gated(answer(3), 4)
    with pytest.raises(ls.RunNotFound):
        await logs.wait("answer")
    await logs.start("answer", source)
    waiting = asyncio.create_task(logs.wait("answer"))
    await written(logs, 3)
    assert not waiting.done()
    source.gate.set()
    assert [(await waiting).state, (await logs.wait("answer")).tail] == ["closed", 8]


async def test_a_stream_is_followed(logs: Logs) -> None:
    await logs.start("answer", ls.stream("sim:demo", "Hi"))
    found = await followed(logs, "answer")
    assert isinstance(found[-1], ls.Finish)
    assert "You said: Hi" in "".join(event.delta for event in found if isinstance(event, ls.TextDelta))


async def test_replay_then_live_has_no_seam(logs: Logs) -> None:
    """Readers come before, in the middle and after the end, at every position."""
    whole = answer(20)
    source = Gated(whole, 10)
    early = asyncio.ensure_future(followed(logs, "answer"))
    await logs.start("answer", source)
    await written(logs, 9)
    middle = [asyncio.ensure_future(followed(logs, "answer", after)) for after in range(-1, 9)]
    await asyncio.sleep(0.03)
    source.gate.set()
    assert await early == whole
    for after, reader in enumerate(middle, -1):
        assert await reader == whole[after + 1 :]
    for after in range(-1, len(whole)):
        assert await followed(logs, "answer", after) == whole[after + 1 :]


async def test_leaving_does_not_stop_a_run(logs: Logs) -> None:
    source = Gated(answer(20), 10)
    live = await logs.start("answer", source)
    async for seq, _ in logs.follow("answer"):
        if seq == 5:
            break
    source.gate.set()
    assert await live.wait() == "closed"
    assert await followed(logs, "answer") == answer(20)


async def test_status_tells_state_and_tail(logs: Logs) -> None:
    assert await logs.status("answer") is None
    source = Gated(answer(5), 4)
    live = await logs.start("answer", source)
    status = await written(logs, 3)
    assert (status.state, status.tail, status.ended) == ("open", 3, None)
    assert status.owner.partition(":")[2].isdigit()
    assert 0 <= status.age_s < 60
    source.gate.set()
    await live.wait()
    status = await logs.status("answer")
    assert status is not None
    assert (status.state, status.tail, status.stopping) == ("closed", 10, False)


async def test_an_id_is_used_once(logs: Logs) -> None:
    source = Gated(answer(3), 2)
    live = await logs.start("answer", source)
    with pytest.raises(ls.RunExists, match="is being produced by") as refused:
        await logs.start("answer", told(answer(3)))
    assert refused.value.reason == "open"
    source.gate.set()
    await live.wait()
    with pytest.raises(ls.RunExists, match="has ended already"):
        await logs.start("answer", told(answer(3)))


async def test_a_run_can_be_replaced(logs: Logs) -> None:
    await (await logs.start("answer", told(answer(3)))).wait()
    await (await logs.start("answer", told(answer(4)), replace=True)).wait()
    found = [item async for item in logs.follow("answer")]
    assert found == list(enumerate(answer(4), len(answer(3))))
    with pytest.raises(ls.RunNotFound, match="started again at 9") as gone:
        await anext(logs.follow("answer", after=2))
    assert gone.value.reason == "replaced"


async def test_a_new_run_under_an_old_id(logs: Logs) -> None:
    """It is followed before its first event, and not taken for the old one that has expired."""
    await (await logs.start("answer", told(answer(3)))).wait()
    source = Gated(answer(4), 0)
    await logs.start("answer", source, replace=True)
    reader = asyncio.ensure_future(anext(logs.follow("answer")))
    await asyncio.sleep(0.03)
    source.gate.set()
    assert await reader == (9, ls.StreamStart())
    assert [seq async for seq, _ in logs.follow("answer", after=8)] == list(range(9, 19))


async def test_an_unknown_run_is_not_found(logs: Logs) -> None:
    with pytest.raises(ls.RunNotFound, match=r"no run 'answer'. Check the id"):
        await anext(logs.follow("answer"))
    assert await logs.read("answer") is None
    assert await logs.stop("answer") is False


@pytest.mark.parametrize("after", [-2, "7", 1.5, None, True, 2**60])
async def test_a_wrong_position_is_refused(after) -> None:
    async with ls.open_logs("memory:") as logs:
        await (await logs.start("answer", told(answer(3)))).wait()
        with pytest.raises(ls.InvalidRequest, match="number of the last event"):
            await anext(logs.follow("answer", after=after))


async def test_a_position_past_the_tail_fails(logs: Logs) -> None:
    await (await logs.start("answer", told(answer(3)))).wait()
    assert await followed(logs, "answer", after=8) == []
    with pytest.raises(ls.InvalidRequest, match="has events up to 8, so a reader cannot be at 9"):
        await anext(logs.follow("answer", after=9))


@pytest.mark.parametrize("run", ["", "x" * 513, 7, None, "\ud800"])
async def test_a_wrong_id_is_refused(run) -> None:
    async with ls.open_logs("memory:") as logs:
        with pytest.raises(ls.InvalidRequest, match=r"1 to 512 characters|valid Unicode"):
            await logs.start(run, told([]))


@pytest.mark.parametrize("options", [{"takeover_s": -1}, {"stop_when_left_s": 0}])
async def test_times_of_a_run_are_checked(options) -> None:
    async with ls.open_logs("memory:") as logs:
        with pytest.raises(ls.InvalidRequest, match="must not be negative"):
            await logs.start("answer", told([]), **options)


async def test_a_long_replay_has_the_tail(logs: Logs) -> None:
    await (await logs.start("answer", told(answer(20)))).wait()
    with pytest.raises(ls.ReplayTooLong, match="22 events after 3; max_replay is 21") as refused:
        await anext(logs.follow("answer", after=3, max_replay=21))
    assert refused.value.tail == 25
    assert ls.errors.error_from_info(refused.value.info).tail == 25
    assert (await anext(logs.follow("answer", after=3, max_replay=22)))[0] == 4


async def test_stop_closes_by_the_grammar(logs: Logs) -> None:
    source = Gated(answer(20), 10)
    live = await logs.start("answer", source)
    await source.held.wait()
    assert await logs.stop("answer") is True
    found = await followed(logs, "answer")
    assert found[:10] == answer(20)[:10]
    assert found[10] == ls.TextEnd("t", incomplete=True)
    assert isinstance(found[11], ls.ErrorEvent)
    assert (found[11].error.code, found[11].error.reason) == ("stopped", "requested")
    assert isinstance(found[12], ls.Finish)
    assert await live.wait() == "stopped"
    assert source.closed
    assert await logs.stop("answer") is False
    with pytest.raises(ls.Stopped):
        _ = [item async for item in logs.follow("answer")]


async def test_the_run_keeps_its_results(logs: Logs) -> None:
    """Such as what waits for a decision."""

    @ls.tool(needs_approval=True)
    async def refund(euros: int) -> str:
        """Pay money back."""
        return "paid"

    run = ls.Agent("sim:demo", tools=[refund]).stream("Refund 20 euros.")
    live = await logs.start("answer", run)
    found = await followed(logs, "answer")
    assert await live.wait() == "closed"
    assert any(isinstance(event, ls.ToolApprovalRequest) for event in found)
    assert isinstance(found[-1], ls.Finish)
    assert found[-1].finish_reason == "tool-calls"
    assert run.suspended is not None
    assert run.messages()[0].text == "Refund 20 euros."


async def test_stopped_agent_counts_tokens(logs: Logs) -> None:
    stuck = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        stuck.set()
        await asyncio.Event().wait()
        return "never"

    await logs.start("answer", ls.Agent("sim:demo", tools=[wait]).stream("Wait."))
    await stuck.wait()
    await logs.stop("answer")
    found = await followed(logs, "answer")
    assert isinstance(found[-1], ls.Finish)
    step = next(event for event in found if isinstance(event, ls.StepFinish))
    assert found[-1].usage.output_tokens == step.usage.output_tokens


async def test_a_stop_needs_no_cleanup(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer, "_CLEANUP_S", 0.01)
    held, release = asyncio.Event(), asyncio.Event()

    async def source():
        yield ls.StreamStart()
        try:
            held.set()
            await asyncio.Event().wait()
        finally:
            await release.wait()

    live = await logs.start("answer", source())
    await held.wait()
    await logs.stop("answer")
    assert isinstance((await followed(logs, "answer"))[-1], ls.Finish)
    assert not live.task.done()
    release.set()
    assert await live.wait() == "stopped"


async def test_nothing_follows_the_end(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    """A source that ignores its cancellation is read on, and not logged."""
    monkeypatch.setattr(producer, "_CLEANUP_S", 0.01)
    held, release = asyncio.Event(), asyncio.Event()

    async def source():
        for event in answer(2)[:5]:
            yield event
        held.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        await release.wait()
        for event in answer(100)[3:]:
            yield event

    live = await logs.start("answer", source())
    await held.wait()
    await logs.stop("answer")
    found = await followed(logs, "answer")
    release.set()
    assert await live.wait() == "stopped"
    assert await followed(logs, "answer") == found
    assert [event.delta for event in found if isinstance(event, ls.TextDelta)] == ["word 0 ", "word 1 "]


PIECES = st.lists(
    st.builds(
        lambda text, block, times, metadata: [ls.TextDelta(text * times, block, metadata)],
        st.text(max_size=4),
        st.sampled_from(["a", "b"]),
        st.sampled_from([1, 1, 1, 1_000, 20_000]),
        st.sampled_from([None, None, None, {"vendor": {"signature": "x" * 9_000}}]),
    )
    | st.integers(1, 90).map(lambda count: [ls.TextDelta("\x00", "a")] * count),
    max_size=8,
)


@settings(max_examples=25)
@given(PIECES)
async def test_every_delta_is_logged_once(pieces) -> None:
    """Whatever is encoded at once, and whatever with its commit."""
    deltas = [delta for piece in pieces for delta in piece]
    starts, ends = [ls.TextStart("a"), ls.TextStart("b")], [ls.TextEnd("a"), ls.TextEnd("b")]
    events = [ls.StreamStart(), *starts, *deltas, *ends]
    size = sum(len(ls.events.encode(event)) for event in events)
    events.append(ls.Finish("stop"))
    async with ls.open_logs("memory:", commit_every_s=0, max_bytes=size) as logs:
        assert await (await logs.start("answer", told(events))).wait() == "closed"
        assert await followed(logs, "answer") == events
        status = await logs.status("answer")
        assert status is not None
        assert status.bytes >= size
    async with ls.open_logs("memory:", max_bytes=size - 1) as logs:
        assert await (await logs.start("answer", told(events))).wait() == "failed"
        await followed(logs, "answer")  # which is valid


async def test_an_error_of_the_run_is_raised(logs: Logs) -> None:
    model = ls.testing.ScriptedModel(ls.testing.Turn(text="Half of it", fault=ls.testing.Cut(after_events=3)))
    live = await logs.start("answer", model.stream("Hi"))
    seen = []
    with pytest.raises(ls.TransportError):
        async for _, event in logs.follow("answer"):
            seen.append(event)
    assert ls.grammar.check(seen) == []
    assert [type(event) for event in seen[-2:]] == [ls.ErrorEvent, ls.Finish]
    assert await live.wait() == "failed"
    assert isinstance(live.error, ls.TransportError)


async def test_a_source_may_just_end(logs: Logs) -> None:
    live = await logs.start("answer", told(answer(5)[:-3]))
    found = await followed(logs, "answer")
    assert isinstance(found[-2], ls.ErrorEvent)
    assert found[-2].error.code == "incomplete-stream"
    assert await live.wait() == "failed"


async def test_an_empty_source_is_a_failure(logs: Logs) -> None:
    await logs.start("answer", told([]))
    kinds = [type(event) for event in await followed(logs, "answer")]
    assert kinds == [ls.StreamStart, ls.ErrorEvent, ls.Finish]


async def test_foreign_error_stays_private(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    async def source():
        yield ls.StreamStart()
        raise KeyError("secret of the owner")

    live = await logs.start("answer", source())
    found = await followed(logs, "answer")
    assert isinstance(found[1], ls.ErrorEvent)
    assert found[1].error.message == "the program that produced the run failed with KeyError"
    assert "secret of the owner" in caplog.text
    assert await live.wait() == "failed"
    assert isinstance(live.error, KeyError)


async def test_half_a_character_is_a_failure(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    """JSON has no lone surrogates. The run of such a source fails, and no other in the same commit."""
    wrong = [*answer(3)[:5], ls.TextDelta("\ud83d", "t")]
    live, other = await logs.start("answer", told(wrong)), await logs.start("other", told(answer(50)))
    assert (await live.wait(), await other.wait()) == ("failed", "closed")
    found = await followed(logs, "answer")
    assert [event.delta for event in found if isinstance(event, ls.TextDelta)] == ["word 0 ", "word 1 "]
    assert "UnicodeEncodeError" in caplog.text


async def test_invalid_events_are_repaired(logs: Logs) -> None:
    """The log of any source obeys the grammar."""
    await logs.start("answer", told([ls.TextDelta("a", "t"), ls.TextStart("t"), ls.Finish("stop")]))
    found = await followed(logs, "answer")
    assert [type(event) for event in found[:3]] == [ls.StreamStart, ls.TextStart, ls.TextDelta]


async def test_a_run_has_a_cap_of_bytes(address: str) -> None:
    async with ls.open_logs(address, max_bytes=2_000) as logs:
        source = Gated(answer(1_000), 1_000)
        live = await logs.start("answer", source)
        found = await followed(logs, "answer")
        assert isinstance(found[-2], ls.ErrorEvent)
        assert (found[-2].error.code, found[-2].error.reason) == ("limit-exceeded", "max_bytes")
        assert await live.wait() == "failed"
        assert source.closed
        status = await logs.status("answer")
        assert status is not None
        assert status.bytes < 2_500


async def test_events_expire_after_the_end(address: str) -> None:
    async with ls.open_logs(address, keep_s=0.15) as logs:
        await (await logs.start("answer", told(answer(3)))).wait()
        assert await followed(logs, "answer") == answer(3)
        await asyncio.sleep(0.16)
        await logs.sweep()
        with pytest.raises(ls.RunNotFound):
            await anext(logs.follow("answer"))
        await asyncio.sleep(0.16)
        await logs.sweep()
        assert await logs.status("answer") is None


async def test_an_expired_run_says_so() -> None:
    async with ls.open_logs("memory:", keep_s=0.3) as logs:
        await (await logs.start("answer", told(answer(3)))).wait()
        await asyncio.sleep(0.31)
        await logs.sweep()
        with pytest.raises(ls.RunNotFound, match=r"were deleted 0.3 s after its end") as gone:
            await anext(logs.follow("answer"))
        assert gone.value.reason == "expired"
        assert await followed(logs, "answer", after=8) == []  # who has seen all misses nothing


async def test_a_deleted_run_ends_its_readers(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    source = Gated(answer(5), 4)
    live = await logs.start("answer", source)
    reader = logs.follow("answer")
    assert (await anext(reader))[0] == 0
    await logs.delete("answer")
    with pytest.raises(ls.LogLost):
        _ = [item async for item in reader]
    source.gate.set()
    with pytest.raises(ls.LogLost):
        await live.wait()
    assert source.closed


@pytest.mark.slow
async def test_a_run_nobody_reads_is_stopped(address: str) -> None:
    async with ls.open_logs(address, lease_s=1) as logs:
        await begin_leave_and_look(logs)


async def begin_leave_and_look(logs: Logs) -> None:
    source = Gated(answer(20), 10)
    live = await logs.start("answer", source, stop_when_left_s=1.0)
    reader = logs.follow("answer")
    for _ in range(10):
        await anext(reader)
    still = asyncio.ensure_future(anext(reader))
    await asyncio.sleep(1.5)
    assert live.state == "open"
    still.cancel()
    await asyncio.wait({still})
    await reader.aclose()
    assert await live.wait() == "stopped"
    assert source.closed
    found = await followed(logs, "answer")
    assert isinstance(found[-2], ls.ErrorEvent)
    assert found[-2].error.reason == "left"


async def test_a_slow_reader_holds_nobody_up(logs: Logs) -> None:
    slow = logs.follow("answer", wait_s=10)
    first = asyncio.ensure_future(anext(slow))
    whole = answer(5_000)
    live = await logs.start("answer", told(whole))
    assert await live.wait() == "closed"
    assert await followed(logs, "answer") == whole
    rest = [event async for _, event in slow]
    assert [(await first)[1], *rest] == whole


async def test_pages_have_the_bytes(logs: Logs) -> None:
    await logs.start("answer", told(answer(5)))
    pages = [page async for page in logs.pages("answer")]
    frames = [frame for page in pages for frame in page.frames]
    assert [ls.events.decode(frame.data) for frame in frames] == answer(5)
    assert [page.ended for page in pages] == [False] * (len(pages) - 1) + [True]
    assert pages[-1].status.state == "closed"
    assert frames == sorted(frames, key=lambda frame: frame.time)
    page = await logs.read("answer", after=7)
    assert page is not None
    assert [frame.seq for frame in page.frames] == [8, 9, 10]
    assert page.up_to_date


async def test_silence_gives_an_empty_page(logs: Logs) -> None:
    """So that a server can send a heartbeat."""
    source = Gated(answer(5), 4)
    await logs.start("answer", source)
    pages = logs.pages("answer", silence_s=0.05)
    numbers: list[int] = []
    quiet = 0
    async for page in pages:
        numbers += [frame.seq for frame in page.frames]
        quiet += not page.frames and not page.ended
        if quiet == 3:
            source.gate.set()
    assert quiet >= 3
    assert numbers == list(range(11))


async def test_stop_at_once_closes_the_source(logs: Logs) -> None:
    """Before the task of the run has begun."""
    source = Gated(answer(5), 4)
    live = await logs.start("answer", source)
    live.stop()
    assert await live.wait() == "stopped"
    assert source.closed
    assert (await followed(logs, "answer"))[-1] == ls.Finish("error")


def test_logs_belong_to_a_loop(tmp_path) -> None:
    logs = ls.open_logs(f"sqlite:{tmp_path}/runs.db")
    with asyncio.Runner() as first, asyncio.Runner() as second:
        assert first.run(logs.status("answer")) is None
        with pytest.raises(ls.InvalidRequest, match="opened in another event loop"):
            second.run(logs.status("answer"))
        first.run(logs.aclose())


async def test_closing_stops_what_runs(address: str) -> None:
    logs = ls.open_logs(address)
    source = Gated(answer(5), 4)
    live = await logs.start("answer", source)
    await source.held.wait()
    await logs.aclose()
    assert await live.wait() == "stopped"
    assert source.closed
    await logs.aclose()
    with pytest.raises(ls.LogUnavailable, match="is closed"):
        await logs.status("answer")
    if address != "memory:":
        async with ls.open_logs(address) as again:
            found = await followed(again, "answer")
            assert isinstance(found[-2], ls.ErrorEvent)
            assert found[-2].error.reason == "closing"


async def test_nothing_is_left_after_closing(address: str) -> None:
    """No task, thread, descriptor or entry for a reader, however runs and readers ended."""
    async with ls.open_logs(address):
        pass  # what is loaded and pooled at first use
    async with ls.testing.no_leaks(), ls.open_logs(address) as logs:
        sources = [Gated(answer(20), 10) for _ in range(40)]
        lives = [await logs.start(f"run-{n}", source) for n, source in enumerate(sources)]
        readers = [asyncio.ensure_future(followed(logs, f"run-{n % 40}")) for n in range(80)]
        await asyncio.sleep(0.05)
        for n in range(0, 40, 4):
            await logs.stop(f"run-{n}")
            sources[n + 1].gate.set()
            readers[n + 2].cancel()
        await asyncio.gather(*[lives[n].wait() for n in range(40) if n % 4 in (0, 1)])
        assert {type(end) for end in await asyncio.gather(*readers[0::4], return_exceptions=True)} == {list}
        for reader in readers:
            reader.cancel()
        await asyncio.wait(readers)
        assert logs._opening.result().readers._readers == {}
    assert all(source.closed for source in sources)


async def test_closing_may_let_runs_end(address: str) -> None:
    logs = ls.open_logs(address)
    source = Gated(answer(5), 4)
    live = await logs.start("answer", source)
    asyncio.get_running_loop().call_later(0.05, source.gate.set)
    await logs.aclose(drain_s=30)
    assert await live.wait() == "closed"


async def test_readers_learn_of_the_closing(address: str) -> None:
    logs = ls.open_logs(address)
    with pytest.raises(ls.RunNotFound):
        await anext(logs.follow("answer"))
    reader = asyncio.ensure_future(anext(logs.follow("answer", wait_s=60)))
    await asyncio.sleep(0.01)
    await logs.aclose()
    with pytest.raises(ls.LogUnavailable):
        await reader


@pytest.mark.parametrize(
    "where", ["", "runs.db", "sqlite:", "sqlite:///runs.db", "mysql://u:pw@host/db", "redis:x"]
)
def test_a_wrong_address_is_refused(where: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=r"Write 'sqlite:runs.db'") as refused:
        ls.open_logs(where)
    assert "pw@" not in str(refused.value)


@pytest.mark.parametrize("option", ["lease_s", "keep_s", "max_bytes"])
def test_options_must_be_positive(option: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=f"{option} must be positive"):
        ls.open_logs("memory:", **{option: 0})


async def test_missing_folder_is_reported(tmp_path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    logs = ls.open_logs(f"sqlite:{tmp_path}/no/runs.db")
    for _ in range(2):
        with pytest.raises(ls.LogUnavailable, match="Check that its folder exists"):
            await logs.status("answer")
    (tmp_path / "no").mkdir()
    assert await logs.status("answer") is None
    await logs.aclose()
