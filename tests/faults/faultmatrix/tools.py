"""What calls of tools can be: rows 33 to 36, each played with a tool that counts its runs."""

from __future__ import annotations

from typing import Any

from faultmatrix.asking import KEY, ONCE, PATIENT, answered
from faultmatrix.faults import Drill
from faultmatrix.wires import USAGE, WIRES, Wire, sse

import llmstream as ls
from llmstream.chats import ToolResult
from llmstream.events import Finish, ResponseMetadata, ToolCall, ToolInputDelta, ToolInputEnd, ToolInputStart
from llmstream.testing import FaultServer, no_leaks

VALUES = "the wire carries the arguments as a JSON value, not as text"
AS_VALUES = dict.fromkeys(("gemini", "ollama"), VALUES)
ONE_PIECE = {"mistral": "a call arrives in one piece, so it is complete"}


async def play(wire: Wire, *bodies: bytes) -> tuple[list[int], list[Any], FaultServer, ls.EventStream]:
    """Asks with the tool `look`, runs what is called, and asks on; runs, statuses, server, stream."""
    runs: list[int] = []

    @ls.tool
    def look(a: int) -> str:
        """Looks."""
        runs.append(a)
        return f"seen {a}"

    scripts = [answered(wire, body) for body in bodies]
    async with FaultServer(*scripts) as server, no_leaks():
        model = wire.model(server.url, api_key=KEY, retry=ONCE, deadlines=PATIENT)
        async with model.stream("Hi", tools=[look], errors="events") as stream:
            statuses = await stream.call_tools()
            statuses += await stream.call_tools()
            if statuses and len(bodies) > 1:
                await stream.collect()
        await server.left()
    return runs, statuses, server, stream


def drill(row: int, name: str, play_it: Any, **options: Any) -> Drill:
    return Drill(name=name, row=row, play=play_it, **options)


def cut_call(arguments: str, *, cut: str) -> Any:
    """The tool must not run on a call whose end was not said."""

    async def run(wire: Wire) -> None:
        body = wire.calls(arguments, reason="length", ended=False)
        if cut == "end":
            body = wire.calls(arguments)
            body = body[: body.rindex(b"1") - 2] if wire.framing == "aws" else body[: len(body) // 2]
        runs, statuses, _, stream = await play(wire, body, wire.whole)
        assert (runs, statuses) == ([], [])
        assert (stream.error is not None) is (cut == "end")

    return run


async def cut_after_the_call(wire: Wire) -> None:
    """The call is whole, and the answer is not: it does not run."""
    calls = wire.calls('{"a": 1}')
    end = wire.said(
        *_call('{"a": 1}', "call_0abcdefgh"),
        Finish("tool-calls", USAGE),
    )
    body = calls[: len(calls) - len(b"".join(end[-2:]))]
    runs, statuses, _, stream = await play(wire, body, wire.whole)
    assert (runs, statuses) == ([], [])
    assert isinstance(stream.error, ls.IncompleteStream)


def _call(text: str, call_id: str, name: str = "look") -> list[Any]:
    return [
        ResponseMetadata("m", "r1"),
        ToolInputStart(name, call_id),
        ToolInputDelta(text, call_id),
        ToolInputEnd(call_id),
        ToolCall(name, text, call_id),
    ]


def bad_input(arguments: str) -> Any:
    """Nothing runs, the model is told, and goes on."""

    async def run(wire: Wire) -> None:
        runs, statuses, server, stream = await play(wire, wire.calls(arguments), wire.whole)
        assert runs == []
        assert len(statuses) == 1
        assert statuses[0].error is not None
        assert stream.text == "Hello"
        assert len(server.requests) == 2
        results = [part for m in stream.messages() for part in m.parts if isinstance(part, ToolResult)]
        assert [result.is_error for result in results] == [True]

    return run


async def unknown_tool(wire: Wire) -> None:
    body = b"".join(wire.said(*_call('{"a": 1}', "call_0abcdefgh", "nobody"), Finish("tool-calls", USAGE)))
    runs, statuses, server, stream = await play(wire, body, wire.whole)
    assert runs == []
    assert "nobody" in statuses[0].error
    assert stream.text == "Hello"
    assert b"nobody" in server.requests[1]


async def nested_input(wire: Wire) -> None:
    deep = '{"a": ' + "[" * 50_000 + "]" * 50_000 + "}"
    runs, _, _, _ = await play(wire, wire.calls(deep), wire.whole)
    assert runs == []


async def endless_input(wire: Wire) -> None:
    big = '{"a": "' + "x" * 300_000 + '"}'
    async with FaultServer(answered(wire, wire.calls(big))) as server, no_leaks():
        limits = ls.StreamLimits(max_tool_input_bytes=100_000, max_event_bytes=200_000)
        model = wire.model(server.url, api_key=KEY, retry=ONCE, limits=limits)
        async with model.stream("Hi", errors="events") as stream:
            await stream.collect()
        assert isinstance(stream.error, ls.LimitExceeded)


async def duplicate_ids(wire: Wire) -> None:
    body = wire.calls('{"a": 1}', '{"a": 2}')
    body = wire.altered(body, b"call_1abcdefgh", b"call_0abcdefgh")
    runs, statuses, _, stream = await play(wire, body, wire.whole)
    ids = [status.tool_call_id for status in statuses]
    assert sorted(runs) == ([1, 2] if len(statuses) == 2 else [1])
    assert len(set(ids)) == len(ids) >= 1
    assert stream.error is None or isinstance(stream.error, ls.StreamError)


async def finish_twice(wire: Wire) -> None:
    events = _call('{"a": 1}', "call_0abcdefgh")
    said = wire.said(*events, Finish("tool-calls", USAGE))
    runs, _, _, _ = await play(wire, b"".join(said) + b"".join(said[-2:]), wire.whole)
    assert runs == [1]


async def called_twice(wire: Wire) -> None:
    body = wire.calls('{"a": 1}')
    runs, _, _, _ = await play(wire, body + body, wire.whole)
    assert runs == [1]


async def finish_stop(wire: Wire) -> None:
    runs, _, _, stream = await play(wire, wire.calls('{"a": 1}', reason="stop"), wire.whole)
    assert runs == [1]
    assert stream.text == "Hello"


def _piece(**function: object) -> bytes:
    call = {key: function.pop(key) for key in ("index", "id") if key in function}
    return sse({"choices": [{"index": 0, "delta": {"tool_calls": [{**call, "function": function}]}}]})


_END = sse({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}) + b"data: [DONE]\n\n"
_OTHERS = {name: "its calls are distinguished by separate events" for name in WIRES if name != "openai-chat"}


def fragments(expected: list[int], *pieces: bytes) -> Any:
    async def run(wire: Wire) -> None:
        runs, statuses, _, _ = await play(wire, b"".join(pieces) + _END, wire.whole)
        assert sorted(runs) == expected
        ids = [status.tool_call_id for status in statuses]
        assert len(set(ids)) == len(ids) == len(expected)
        assert all(ids)
        assert {status.name for status in statuses} <= {"look"}

    return run


A1, A2 = '{"a": 1}', '{"a": 2}'
FRAGMENTS: dict[str, tuple[list[int], list[bytes]]] = {
    "the same index for two calls": (
        [1, 2],
        [
            _piece(index=0, id="x", name="look", arguments=A1),
            _piece(index=0, id="y", name="look", arguments=A2),
        ],
    ),
    "no index at all": (
        [1, 2],
        [_piece(id="x", name="look", arguments=A1), _piece(id="y", name="look", arguments=A2)],
    ),
    "no id at all": (
        [1, 2],
        [_piece(index=0, name="look", arguments=A1), _piece(index=1, name="look", arguments=A2)],
    ),
    "blank continuations": (
        [1],
        [
            _piece(index=0, id="x", name="look", arguments='{"a"'),
            _piece(index=0, id="", name="", arguments=": 1"),
            _piece(index=0, id=None, name=None, arguments="}"),
            _piece(index=0, id="", name="", arguments=""),
        ],
    ),
    "the name again with each fragment": (
        [1],
        [_piece(index=0, id="x", name="look", arguments=part) for part in ('{"a"', ": 1", "}")],
    ),
    "interleaved fragments": (
        [1, 2],
        [
            _piece(index=0, id="x", name="look", arguments='{"a"'),
            _piece(index=1, id="y", name="look", arguments='{"a"'),
            _piece(index=0, arguments=": 1}"),
            _piece(index=1, arguments=": 2}"),
        ],
    ),
    "the complete call twice": (
        [1],
        [_piece(index=0, id="x", name="look", arguments=A1)] * 2,
    ),
    "one id for two calls": (
        [1, 2],
        [
            _piece(index=0, id="x", name="look", arguments=A1),
            _piece(index=1, id="x", name="look", arguments=A2),
        ],
    ),
}

DRILLS = [
    drill(33, "arguments cut by the length", cut_call('{"a": 1', cut="length"), not_for=AS_VALUES),
    drill(
        33,
        "arguments cut by the length that are complete JSON",
        cut_call('{"a": 1}', cut="length"),
        not_for=ONE_PIECE | AS_VALUES,
    ),
    drill(33, "arguments cut by the length before they began", cut_call("", cut="length")),
    drill(33, "arguments cut by the end", cut_call('{"a": 1}', cut="end")),
    drill(33, "the answer cut after the call", cut_after_the_call),
    *(
        drill(34, f"arguments {text[:24]}", bad_input(text), not_for=AS_VALUES)
        for text in ('{"a": 1', "[1]", "1", '{"a":1}{"a":1}', '"{"', "{" * 9, '{"a": 1} and more')
    ),
    *(
        drill(34, f"arguments {text}", bad_input(text))
        for text in ('{"a": "x"}', '{"a": 1, "b": 2}', '{"b": 1}', '{"a": null}', '{"a": 1.5}')
    ),
    drill(34, "arguments nested 50 000 deep", nested_input, not_for=AS_VALUES),
    drill(34, "arguments past their limit", endless_input),
    drill(34, "a tool that nobody offered", unknown_tool),
    drill(
        35,
        "one id for two calls",
        duplicate_ids,
        not_for={"gemini": "calls have no ids on the wire"},
    ),
    *(
        drill(35, f"fragments: {name}", fragments(expected, *pieces), not_for=_OTHERS)
        for name, (expected, pieces) in FRAGMENTS.items()
    ),
    drill(36, "the finish twice", finish_twice),
    drill(
        36, "the complete answer twice", called_twice, not_for={"gemini": "two calls of one answer look so"}
    ),
    drill(36, "finish stop with calls", finish_stop),
]
