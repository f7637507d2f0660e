"""Conversations in which one thing comes again and again: turns, calls, results, parts, ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from llmstream.chats import Message
from llmstream.chats.content import Document, Image, Reasoning, Text, ToolCall, ToolResult

__all__ = ["HISTORIES", "History"]

History = Callable[[int], list[Message]]

PNG = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def _call(call_id: str, name: str = "f") -> ToolCall:
    return ToolCall(call_id, name, '{"a":1}')


def _result(call_id: str, name: str = "f") -> ToolResult:
    return ToolResult(call_id, "found", name=name)


def _turns(n: int) -> Iterator[Message]:
    for i in range(n):
        yield Message.user(f"question {i}")
        yield Message.assistant(f"answer {i}")


def _steps(n: int, name: Callable[[int], str]) -> Iterator[Message]:
    yield Message.user("Go")
    for i in range(n):
        yield Message.assistant("Looking.", _call(name(i)))
        yield Message.tool([_result(name(i))])


def _at_once(n: int, name: Callable[[int], str]) -> Iterator[Message]:
    yield Message.user("Go")
    yield Message.assistant(*[_call(name(i)) for i in range(n)])
    yield Message.tool([_result(name(i)) for i in range(n)])


def _backwards(n: int) -> Iterator[Message]:
    yield Message.user("Go")
    yield Message.assistant(*[_call(f"c{i}") for i in range(n)])
    yield Message.tool([_result(f"c{i}") for i in reversed(range(n))])


def _one_by_one(n: int) -> Iterator[Message]:
    yield Message.user("Go")
    yield Message.assistant(*[_call(f"c{i}") for i in range(n)])
    for i in range(n):
        yield Message.tool([_result(f"c{i}")])


def _signed(n: int) -> Iterator[Message]:
    own = {name: {"signature": "s", "item_id": "i"} for name in ("anthropic", "bedrock", "google", "openai")}
    yield Message.user("Go")
    for i in range(n):
        yield Message.assistant(Reasoning("Hm.", own), Text("Looking.", own), _call(f"c{i}"))
        yield Message.tool([_result(f"c{i}")])


HISTORIES: dict[str, History] = {
    "turns": lambda n: list(_turns(n)),
    "questions": lambda n: [Message.user(f"question {i}") for i in range(n)],
    "answers": lambda n: [Message.user("?"), *[Message.assistant(f"answer {i}") for i in range(n)]],
    "system messages": lambda n: [
        Message.user("?"),
        *[m for i in range(n) for m in (Message.system(f"rule {i}"), Message.user("?"))],
    ],
    "steps": lambda n: list(_steps(n, lambda i: f"c{i}")),
    "steps of one id": lambda n: list(_steps(n, lambda i: "c")),
    "steps of foreign ids": lambda n: list(_steps(n, lambda i: f"functions.f:{i}")),
    "steps of ids alike": lambda n: list(_steps(n, lambda i: chr(0x4E00 + i))),
    "calls at once": lambda n: list(_at_once(n, lambda i: f"c{i}")),
    "calls of one id at once": lambda n: list(_at_once(n, lambda i: "c")),
    "calls of ids alike at once": lambda n: list(_at_once(n, lambda i: chr(0x4E00 + i))),
    "results backwards": lambda n: list(_backwards(n)),
    "results one by one": lambda n: list(_one_by_one(n)),
    "calls without results": lambda n: [
        Message.user("Go"),
        *[Message.assistant("x", _call(f"c{i}")) for i in range(n)],
    ],
    "results without calls": lambda n: [
        Message.user("Go"),
        *[Message.tool([_result(f"c{i}")]) for i in range(n)],
        Message.user("And?"),
    ],
    "results twice": lambda n: [
        Message.user("Go"),
        Message.assistant(_call("c")),
        *[Message.tool([_result("c")]) for _ in range(n)],
    ],
    "parts": lambda n: [Message.user(*[f"part {i}" for i in range(n)])],
    "images": lambda n: [Message.user(*[Image(data=PNG, media_type="image/png") for _ in range(n)])],
    "documents of one name": lambda n: [
        Message.user("?", *[Document(data=b"%PDF-1", media_type="application/pdf", filename="a.pdf")] * n)
    ],
    "reasoning": lambda n: [
        Message.user("?"),
        Message.assistant(*[Reasoning(f"r{i}") for i in range(n)], "x"),
    ],
    "signed steps": lambda n: list(_signed(n)),
}
