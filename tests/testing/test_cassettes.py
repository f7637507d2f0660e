"""Cassettes: recorded once, replayed from then on, and what happens to a request that is not in one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.grammar import check
from llmstream.middleware import wrap
from llmstream.testing import (
    Call,
    CassetteWarning,
    Cut,
    Refuse,
    Script,
    ScriptedModel,
    Simulator,
    Turn,
    UnrecordedRequest,
    VirtualClock,
    cassette,
)

KEY = "sk-canary-0123456789"


@pytest.fixture(autouse=True)
def no_override(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LLMSTREAM_CASSETTES", raising=False)


async def read(model: ls.Model, prompt: str = "Hi", **options: Any) -> list[ls.Event]:
    events = [event async for event in model.events(model.request(prompt, **options), errors="events")]
    assert check(events) == []
    return events


def texts(events: list[ls.Event]) -> str:
    return "".join(event.delta for event in events if isinstance(event, ls.TextDelta))


async def test_replay_has_the_same_events(tmp_path: Path) -> None:
    """All answers of a block, over HTTP, then without it; failures too."""
    turns = [
        "Hello you",
        Turn(text="Hm", calls=(Call("f", {"a": 1}),)),
        Turn(fault=Refuse(status=400)),
        "Last",
    ]
    seen = list[list[list[ls.Event]]]()
    async with Simulator(lambda request, number: turns[number]) as server:
        for key in (KEY, "another-key"):
            model = ls.Model("anthropic:m", base_url=server.url, api_key=key)
            with cassette("hello", folder=tmp_path):
                seen.append([await read(model, f"Hi {number}") for number in range(4)])
        assert len(server.requests) == 4
    assert seen[0] == seen[1]
    assert isinstance(seen[1][2][-2], ls.ErrorEvent)


async def test_failures_are_raised_again(tmp_path: Path) -> None:
    tape = tmp_path / "fails"
    for model in (ScriptedModel(Turn(text="one two", fault=Cut(after_events=3))), ScriptedModel("never")):
        with pytest.raises(ls.ConnectionLost) as caught:
            await wrap(model, cassette(tape, folder=tmp_path)).stream("Hi").collect()
        assert caught.value.partial is not None
        assert caught.value.partial.text == "one"


async def test_outside_of_the_block_it_is_over(tmp_path: Path) -> None:
    async with Simulator(Script((Turn(text="Hello"), Turn(text="Again")))) as server:
        model = ls.Model("ollama:m", base_url=server.url)
        with cassette("a", folder=tmp_path):
            await read(model)
        assert texts(await read(model)) == "Again"


async def test_file_is_readable_and_scrubbed(tmp_path: Path) -> None:
    """Neither a key nor another secret is in it, in one delta, over several, or in the prompt."""
    inner = ScriptedModel(Turn(text=f"Your key is {KEY} and the word is open sesame now."))
    inner._api_key = KEY
    model = wrap(inner, cassette("a", folder=tmp_path, scrub=["open sesame"]))
    await read(model, f"What is {KEY}?", headers={"x-api-key": KEY})
    text = (tmp_path / "a.json").read_text()
    data = json.loads(text)
    assert (data["format"], data["version"]) == ("llmstream.cassette", 1)
    (answer,) = data["answers"]
    assert answer["request"]["model"] == "scripted:scripted"
    assert "*" * len(KEY) in answer["request"]["messages"][0]["parts"][0]["text"]
    said = "".join(event.get("delta", "") for event in answer["events"])
    assert said == f"Your key is {'*' * len(KEY)} and the word is *********** now."
    assert KEY not in text
    assert text.count('\n{"type":') == len(answer["events"])
    assert sum(count for _, count in answer["timing"]) == len(answer["events"])
    again = wrap(inner, cassette("a", mode="none", folder=tmp_path, scrub=["open sesame"]))
    assert texts(await read(again, f"What is {KEY}?")) == said


async def test_none_shows_the_difference(tmp_path: Path) -> None:
    """A miss shows what differs from the nearest recorded request."""
    inner = ScriptedModel("one", "two")
    model = wrap(inner, cassette("a", folder=tmp_path))
    await read(model, "Describe the sea.", temperature=0.5)
    await read(model, "Count to ten.")
    strict = wrap(inner, cassette("a", mode="none", folder=tmp_path))
    with pytest.raises(UnrecordedRequest) as caught:
        await read(strict, "Describe the sky.", temperature=0.5)
    message = str(caught.value)
    changed = [
        line.strip() for line in message.splitlines() if line[0] in "+-" and line[:3] not in ("---", "+++")
    ]
    assert len(changed) == 2
    assert changed[0].startswith("-")
    assert changed[0].endswith('"text": "Describe the sea."')
    assert changed[1].endswith('"text": "Describe the sky."')
    assert "mode='new'" in message
    assert len(inner.requests) == 2


async def test_long_prompts_are_cut_to_the_change(tmp_path: Path) -> None:
    inner = ScriptedModel("one")
    await read(wrap(inner, cassette("a", folder=tmp_path)), "word " * 500 + "sea" + " word" * 500)
    with pytest.raises(UnrecordedRequest) as caught:
        await read(wrap(inner, cassette("a", "none", folder=tmp_path)), "word " * 500 + "sky" + " word" * 500)
    assert "sea" in str(caught.value)
    assert "sky" in str(caught.value)
    assert len(str(caught.value)) < 2_000


async def test_none_without_a_file_sends_nothing(tmp_path: Path) -> None:
    inner = ScriptedModel("one")
    with pytest.raises(UnrecordedRequest, match="there is no cassette"):
        await read(wrap(inner, cassette("a", mode="none", folder=tmp_path)))
    assert inner.requests == []
    assert not (tmp_path / "a.json").exists()


async def test_equal_requests_are_in_order(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two", "three")
    for _ in range(2):
        model = wrap(inner, cassette("a", folder=tmp_path))
        assert [texts(await read(model, prompt)) for prompt in ("Hi", "Ho", "Hi")] == ["one", "two", "three"]
    strict = wrap(inner, cassette("a", mode="none", folder=tmp_path))
    assert [texts(await read(strict)) for _ in range(2)] == ["one", "three"]
    with pytest.raises(UnrecordedRequest, match="2 answers to this request"):
        await read(strict)


async def test_once_goes_by_order_with_a_warning(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two")
    model = wrap(inner, cassette("a", folder=tmp_path))
    await read(model, "Hi")
    await read(model, "Ho")
    model = wrap(inner, cassette("a", folder=tmp_path))
    assert texts(await read(model, "Ho")) == "two"
    with pytest.warns(CassetteWarning, match="Hey"):
        assert texts(await read(model, "Hey")) == "one"
    with pytest.raises(UnrecordedRequest):
        await read(model, "Hey")


async def test_new_records_the_rest(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two")
    await read(wrap(inner, cassette("a", folder=tmp_path)), "Hi")
    for _ in range(2):
        model = wrap(inner, cassette("a", mode="new", folder=tmp_path))
        assert [texts(await read(model, prompt)) for prompt in ("Hi", "Ho")] == ["one", "two"]
    assert len(inner.requests) == 2


async def test_all_records_anew(tmp_path: Path) -> None:
    inner = ScriptedModel("one", "two")
    await read(wrap(inner, cassette("a", folder=tmp_path)))
    await read(wrap(inner, cassette("a", mode="all", folder=tmp_path)))
    assert texts(await read(wrap(inner, cassette("a", folder=tmp_path)))) == "two"


async def test_the_environment_overrides_the_mode(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMSTREAM_CASSETTES", "none")
    assert cassette("a", mode="all", folder=tmp_path).mode == "none"
    monkeypatch.setenv("LLMSTREAM_CASSETTES", "never")
    with pytest.raises(ls.InvalidRequest, match="mode of a cassette"):
        cassette("a", folder=tmp_path)


async def test_an_agent_replays_its_steps(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """Weather of a city."""
        return f"7 degrees in {city}"

    runs = []
    for inner in (
        ScriptedModel(Turn(calls=(Call("weather", {"city": "Oslo"}),)), "A coat."),
        ScriptedModel("?"),
    ):
        agent = ls.Agent(wrap(inner, cassette("a", folder=tmp_path)), tools=[weather])
        runs.append(await agent.run("A coat?"))
    assert runs[0].text == runs[1].text == "A coat."


async def test_a_left_answer_replays_as_far(tmp_path: Path) -> None:
    for inner in (ScriptedModel("one two three"), ScriptedModel("?")):
        model = wrap(inner, cassette("a", folder=tmp_path))
        async with model.stream("Hi") as stream:
            async for event in stream:
                if isinstance(event, ls.TextDelta):
                    break
        assert stream.text == "one"
    with pytest.raises(UnrecordedRequest, match="not read to its end"):
        await wrap(inner, cassette("a", folder=tmp_path)).stream("Hi").collect()


async def test_requests_side_by_side_keep_order(tmp_path: Path) -> None:
    inner = ScriptedModel(lambda request: f"to {request.messages[-1].text}")
    for _ in range(2):
        model = wrap(inner, cassette("a", folder=tmp_path))
        answers = await asyncio.gather(*[read(model, f"Hi {number}") for number in range(5)])
        assert [texts(events) for events in answers] == [f"to Hi {number}" for number in range(5)]
    assert len(inner.requests) == 5


async def test_pace_is_kept_but_not_played(tmp_path: Path) -> None:
    async def slowly(request: Any, ask: Any) -> Any:
        async for event in ask(request):
            if isinstance(event, ls.TextDelta):
                await asyncio.sleep(10)
            yield event

    with VirtualClock() as clock:
        took = []
        for times in ("none", "none", "original", 2.0):
            began = clock.elapsed_s
            tape = cassette("a", folder=tmp_path, times=times)  # type: ignore[arg-type]
            await read(wrap(ScriptedModel("one two"), slowly, tape))
            took.append(clock.elapsed_s - began)
    assert took == pytest.approx([20, 0, 20, 10], abs=0.5)


@pytest.mark.parametrize("damage", ["", "{", '{"format":"llmstream.cassette","version":2,"answers":[]}'])
async def test_a_damaged_file_is_no_recording(damage: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(damage)
    with pytest.raises(ls.InvalidRequest, match="not a cassette"):
        await wrap(ScriptedModel("one"), cassette("a", folder=tmp_path)).stream("Hi").collect()
    assert (tmp_path / "a.json").read_text() == damage


def test_files_are_beside_the_test() -> None:
    assert cassette("a").path == Path(__file__).parent / "cassettes" / "a.json"


async def test_images_are_shown_by_digest(tmp_path: Path) -> None:
    image = ls.Image(data=b"\x89PNG" + bytes(5_000), media_type="image/png")
    message = ls.Message.user("What is this?", image)
    for inner in (ScriptedModel("A square."), ScriptedModel("?")):
        model = wrap(inner, cassette("a", folder=tmp_path))
        assert (await model.stream(message).collect()).text == "A square."
    assert (tmp_path / "a.json").stat().st_size < 3_000
