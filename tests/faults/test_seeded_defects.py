"""A promise is kept only by a test that fails without it: defects put in, and the cells that find them."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiohttp.client_proto import ResponseHandler
from faultmatrix import sowing
from faultmatrix.asking import answered
from faultmatrix.catalogue import FAULTS
from faultmatrix.defects_of_tests import DEFECTS_OF_TESTS
from faultmatrix.leaving import model
from faultmatrix.patching import AIOHTTPS_ERRORS, NOTHING, Patch, both, follows, put
from faultmatrix.rows import NOT_OURS, ROWS, THREATS
from faultmatrix.wires import WIRES

import llmstream as ls
from llmstream.dialects import decoder
from llmstream.dialects import errors as vendor_errors
from llmstream.dialects.bedrock_converse.decoder import BedrockConverseDecoder
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.tool_calls import ToolCallTracker
from llmstream.events import Finish, TextDelta
from llmstream.framing.sse import SSEDecoder
from llmstream.grammar import Guard
from llmstream.middleware import fallback
from llmstream.streams import answer, http_call
from llmstream.streams.attempts import AttemptClock
from llmstream.streams.event_stream import EventStream
from llmstream.testing import FaultServer, no_leaks
from llmstream.tools import ToolSet
from llmstream.tools.outcome import ToolOutcome
from llmstream.tools.tool import Tool
from llmstream.transport import http, sessions
from llmstream.transport.aiohttp_patches import CarefulProtocol
from llmstream.transport.deadlines import Watchdog
from llmstream.transport.sessions import LoopBound

ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 1.0


def end_is_success(self: GuardedDecoder, error: object = None) -> list[Any]:
    return [] if self.done else self._guard.feed([Finish("stop", ls.Usage())])


async def whole_body(self: http.Response) -> bytes:
    return await self._response.read()


def unlimited(patch: pytest.MonkeyPatch) -> None:
    original = SSEDecoder.__init__
    patch.setattr(SSEDecoder, "__init__", lambda self, max_bytes=0: original(self, max_bytes=1 << 40))


def never_truncated(patch: pytest.MonkeyPatch) -> None:
    original = ToolCallTracker.finish
    patch.setattr(ToolCallTracker, "finish", lambda self, **options: original(self))


def soft_only(self: Watchdog) -> Any:
    which, limit = self._soft
    since = self.waiting_since
    return None if limit is None or since is None else (since + limit, which, limit)


def every_byte_is_progress(self: Watchdog) -> Any:
    return (self._loop.time() + 0.05, "idle", 0.05)


def one_for_all(patch: pytest.MonkeyPatch) -> None:
    original, found = LoopBound.get, []

    async def get(self: Any, key: Any) -> Any:
        if not found:
            found.append(await original(self, key))
        return found[0]

    patch.setattr(LoopBound, "get", get)


async def untimed(self: AttemptClock, step: Any, started: float | None, silence: str = "") -> Any:
    return await step


def any_wait(self: http_call.HTTPCall, failure: ls.LLMStreamError) -> float | None:
    return failure.retry_after_s


def naive_wait(headers: Any, **options: Any) -> float | None:
    try:
        return float(headers["retry-after"])
    except (KeyError, ValueError):
        return None


def new_key_each_time(self: ls.Model, call_id: str) -> dict[str, str]:
    return {self.provider.idempotency_header: str(uuid.uuid4())} if self.provider.idempotency_header else {}


def not_caught(self: answer.Answer, error: Exception) -> list[Any]:
    raise error


async def no_body(self: http.Response) -> bytes:
    raise ls.ConnectionLost("the body was not read")


def all_pass(self: Guard, events: list[Any]) -> list[Any]:
    self.finished = self.finished or any(type(event) is Finish for event in events)
    return events


def read_to_the_end(self: decoder.PayloadDecoder[Any], payloads: list[bytes]) -> None:
    for payload in payloads:
        self.on(self._decode(payload))


def held_scope(patch: pytest.MonkeyPatch) -> None:
    scopes: dict[http_call.HTTPCall, anyio.CancelScope] = {}
    original_next, original_close = http_call.HTTPCall.next, http_call.HTTPCall.close

    async def next_(self: http_call.HTTPCall) -> list[Any]:
        if self not in scopes:
            scopes[self] = anyio.CancelScope().__enter__()
        return await original_next(self)

    def close(self: http_call.HTTPCall) -> None:
        original_close(self)
        if self in scopes:
            scopes.pop(self).__exit__(None, None, None)

    both(put(http_call.HTTPCall, "next", next_), put(http_call.HTTPCall, "close", close))(patch)


AIOHTTPS_READING = put(CarefulProtocol, "data_received", ResponseHandler.data_received)
READ_WHOLE = put(http.Response, "read", whole_body)
ASKED_AFTER_CONTENT = put(http_call, "_has_content", lambda events: False)

DEFECTS: dict[str, tuple[Patch, int, str, str]] = {
    "aiohttp's own errors": (
        AIOHTTPS_ERRORS,
        1,
        "reset after an event",
        "anthropic",
    ),
    "what lay in the buffer is lost": (
        put(http.Response, "_unread_bytes", lambda self: b""),
        1,
        "a reset while the reader is busy",
        "openai-chat",
    ),
    "the end is success": (
        put(GuardedDecoder, "close", end_is_success),
        2,
        "clean end without a finish",
        "openai-chat",
    ),
    "no watchdog": (put(Watchdog, "_arm", NOTHING), 3, "silence in mid-stream", "anthropic"),
    "pings are progress": (
        put(Watchdog, "_due", every_byte_is_progress),
        4,
        "heartbeats in mid-stream",
        "anthropic",
    ),
    "no total deadline for a body": (put(Watchdog, "_due", soft_only), 5, "slow loris, body", "mistral"),
    "aiohttp's own protocol": (
        AIOHTTPS_READING,
        6,
        "chunk header b'zz\\r\\nhello\\r\\n'",
        "openai-chat",
    ),
    "the rest is waited for": (
        put(answer, "_TRAILER_S", 60.0),
        7,
        "answer over, then the socket stays open",
        "gemini",
    ),
    "the rest is read without end": (
        both(put(http, "_DRAIN_S", 60.0), put(http, "_DRAIN_BYTES", 1 << 40)),
        7,
        "answer over, then a flood of pings",
        "openai-chat",
    ),
    "the end of the body is waited for": (
        READ_WHOLE,
        8,
        "content-length too long",
        "openai-chat",
    ),
    "lengths are aiohttp's": (
        AIOHTTPS_READING,
        9,
        "content-length too short",
        "openai-chat",
    ),
    "no second connection": (
        put(http, "_server_had_closed", lambda error: False),
        10,
        "a keep-alive connection reset at the request",
        "cohere",
    ),
    "a refusal needs its body": (
        put(http.Response, "read_error", no_body),
        11,
        "413 before the request is read, then a reset",
        "anthropic",
    ),
    "the body is read whole": (
        READ_WHOLE,
        12,
        "an event is delivered at once, plain",
        "ollama",
    ),
    "any coding will do": (
        put(http, "ENCODINGS", frozenset({"rot13"})),
        13,
        "rot13 that it is not",
        "openai-chat",
    ),
    "a page is a stream that broke off": (
        put(answer, "vendor_error", lambda *args, **options: ls.IncompleteStream("over")),
        14,
        "200 with HTML",
        "anthropic",
    ),
    "one class for every status": (
        put(vendor_errors, "_class_of", lambda status, said: ls.ServerError),
        15,
        "401",
        "mistral",
    ),
    "any wait is obeyed": (
        put(http_call.HTTPCall, "_wait_s", any_wait),
        16,
        "429, retry_after: 86400",
        "openai-chat",
    ),
    "float() reads the wait": (
        put(vendor_errors, "retry_after_s", naive_wait),
        16,
        "429, retry_after: inf",
        "openai-chat",
    ),
    "no retries": (
        put(http_call, "wait_before_retry_s", NOTHING),
        17,
        "503, then the answer",
        "bedrock-converse",
    ),
    "the deadline does not count waits": (
        both(
            put(AttemptClock, "past_total", lambda self, wait_s: False), put(AttemptClock, "in_time", untimed)
        ),
        18,
        "waits that are longer than the deadline",
        "openai-chat",
    ),
    "redirects are followed": (follows, 19, "redirect 303 to another path", "anthropic"),
    "a refused connection is aiohttp's": (
        AIOHTTPS_ERRORS,
        20,
        "connection refused",
        "openai-chat",
    ),
    "a connection is not closed": (
        both(put(http.Response, "close", NOTHING), put(http.Response, "abort", NOTHING)),
        21,
        "places return after any end",
        "openai-chat",
    ),
    "UTF-8 is strict": (
        put(decoder.PayloadDecoder, "_decode_rejected", lambda self, payload, first: payload.decode()),
        22,
        "bytes that are not UTF-8, in a text",
        "cohere",
    ),
    "broken JSON is skipped": (
        put(decoder.PayloadDecoder, "defect", NOTHING),
        23,
        'broken JSON: {"choices": [',
        "mistral",
    ),
    "wrong shapes are nobody's": (
        both(put(decoder, "UNREADABLE", ()), put(answer.Answer, "_unforeseen", not_caught)),
        24,
        "shape: []",
        "openai-responses",
    ),
    "raw events are lost": (
        put(decoder.PayloadDecoder, "_raw", NOTHING),
        25,
        "unknown events, raw",
        "gemini-interactions",
    ),
    "what follows the end passes": (
        both(
            put(Guard, "feed", all_pass),
            put(decoder.PayloadDecoder, "_read", read_to_the_end),
            put(BedrockConverseDecoder, "_read", read_to_the_end),
        ),
        26,
        "the answer in one segment with what follows",
        "bedrock-converse",
    ),
    "an error event is an answer": (
        put(http_call, "_has_content", lambda events: True),
        27,
        "an overload as the first event",
        "openai-chat",
    ),
    "asked again after content": (
        ASKED_AFTER_CONTENT,
        28,
        "an overload in mid-stream",
        "openai-chat",
    ),
    "no limit of a line": (unlimited, 29, "a line past its limit", "openai-chat"),
    "no limit of depth": (
        both(put(decoder, "UNREADABLE", (ValueError,)), put(answer.Answer, "_unforeseen", not_caught)),
        31,
        "JSON nested 100000 deep, in an ignored field",
        "mistral",
    ),
    "cut calls run": (
        never_truncated,
        33,
        "arguments cut by the length that are complete JSON",
        "openai-chat",
    ),
    "the nearest tool runs": (
        put(ToolSet, "find", lambda self, name: next(iter(self))),
        34,
        "a tool that nobody offered",
        "gemini",
    ),
    "calls are known by their index": (
        put(ToolCallTracker, "_is_another", lambda *args: False),
        35,
        "fragments: the same index for two calls",
        "openai-chat",
    ),
    "a cancel leaves the socket": (
        both(put(answer.Answer, "close", NOTHING), put(http.Response, "close", NOTHING)),
        37,
        "a cancel in mid-stream",
        "anthropic",
    ),
    "leaving leaves the socket": (
        both(put(answer.Answer, "close", NOTHING), put(http.Response, "close", NOTHING)),
        38,
        "left by aclose",
        "openai-chat",
    ),
    "a scope is held over a yield": (
        held_scope,
        39,
        "begun, read and left in different tasks",
        "openai-chat",
    ),
    "buffers without end": (
        both(put(sessions, "READ_BUFFER_BYTES", 1 << 40), put(http, "READ_BUFFER_BYTES", 1 << 40)),
        40,
        "a slow reader",
        "openai-chat",
    ),
    "one session for all loops": (one_for_all, 41, "a new loop", "openai-chat"),
    "any number of readers": (
        lambda patch: patch.setattr(
            EventStream, "_reading", property(lambda self: False, NOTHING), raising=False
        ),
        42,
        "two readers",
        "openai-chat",
    ),
    "no timeout of a tool": (
        lambda patch: patch.setattr(Tool, "timeout_s", property(NOTHING, NOTHING), raising=False),
        43,
        "a tool that hangs",
        "anthropic",
    ),
    "results of any length": (
        put(ToolOutcome, "fitted", lambda self, *args: self),
        44,
        "a result of a million characters",
        "openai-chat",
    ),
    "the answer is asked for anew": (
        ASKED_AFTER_CONTENT,
        46,
        "not requested again after content: a reset",
        "anthropic",
    ),
    "a new key for every attempt": (
        put(ls.Model, "_call_headers", new_key_each_time),
        47,
        "one idempotency key for all attempts of a call, another for the next call",
        "openai-chat",
    ),
    "another model after content": (
        lambda patch: patch.setitem(
            fallback.__globals__, "NO_CONTENT", fallback.__globals__["NO_CONTENT"] | {TextDelta}
        ),
        49,
        "no second model after content",
        "openai-chat",
    ),
    "a key is asked for once": (
        put(http_call.HTTPCall, "_wait_s", NOTHING),
        51,
        "a key that was rotated",
        "openai-chat",
    ),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # some of them leave connections open, and that is it
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", DEFECTS)
async def test_a_defect_that_is_put_in_is_found(monkeypatch, name) -> None:
    patch, row, fault_name, wire = DEFECTS[name]
    fault = next(fault for fault in FAULTS if (fault.row, fault.name) == (row, fault_name))
    assert wire not in fault.not_for
    await fault.check(WIRES[wire])
    patch(monkeypatch)
    found = False
    try:
        async with asyncio.timeout(WITHIN_S):
            await fault.check(WIRES[wire])
    except Exception:  # an assertion, an untyped error, or no end at all
        found = True
    monkeypatch.undo()
    gc.collect()
    assert found, f"with {name!r} put in, {fault_name!r} still passes"


@pytest.mark.parametrize("name", DEFECTS_OF_TESTS)
def test_outside_test_finds_its_defect(name, tmp_path) -> None:
    """It fails with the defect in it; that it passes without is seen where it stands."""
    options = ["-q", "-p", "faultmatrix.sowing", "-p", "no:cacheprovider", "-p", "no:hypothesispytest"]
    command = [sys.executable, "-m", "pytest", *options, f"tests/{DEFECTS_OF_TESTS[name].test}"]
    here = {"PYTHONPATH": str(Path(__file__).parent), "TMPDIR": str(tmp_path)}
    env = {**os.environ, **here, sowing.VARIABLE: name}
    run = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=120)
    assert run.returncode == pytest.ExitCode.TESTS_FAILED, run.stdout + run.stderr
    assert "1 failed" in run.stdout


def test_each_row_and_threat_has_a_defect() -> None:
    rows = {str(row) for _, row, _, _ in DEFECTS.values()} | {d.row for d in DEFECTS_OF_TESTS.values()}
    ours = {str(row) for row in ROWS} | {f"T{row}" for row in THREATS}
    assert ours - rows == set(NOT_OURS)


async def test_own_defect_is_a_typed_error_too(monkeypatch) -> None:
    def fails(self: object, payload: object) -> None:
        raise KeyError("of ours")

    wire = WIRES["anthropic"]
    monkeypatch.setattr(decoder.PayloadDecoder, "_read_one", fails)
    async with FaultServer(answered(wire, wire.whole)) as server, no_leaks():
        stream = model(wire, server).stream("Hi", errors="events")
        await stream.collect()
        await server.left()
    assert type(stream.error) is ls.DecodeError
