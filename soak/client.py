"""Reads one stream as its case wants, and says what is wrong with how it ended."""

from __future__ import annotations

import asyncio

import llmstream as ls
from llmstream.streams.attempts import Retry
from llmstream.transport.deadlines import Deadlines
from soak.cases import Case, dialect_of

_PATIENT = Deadlines(first_event_s=300.0, idle_s=300.0, step_s=600.0)
_SHORT = Deadlines(first_event_s=1.0, idle_s=1.0, step_s=240.0)
_WANTED: dict[str, tuple[type[ls.LLMStreamError], ...]] = {
    "cut": (ls.IncompleteStream,),
    "reset": (ls.ConnectionLost,),
    "stalled": (ls.DeadlineExceeded,),
    "overloaded": (ls.ProviderError,),
    "garbage": (ls.DecodeError,),
}


class Client:
    """Models of one server, one for each wire."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._models: dict[str, ls.Model] = {}

    async def read(self, case: Case) -> str | None:
        """Runs a case; None where all is as it should be, else what is not."""
        stream = self._model(case.wire).stream(
            case.prompt,
            retry=Retry(max_retries=1 if case.kind == "refused" else 0),
            deadlines=_SHORT if case.kind == "stalled" else _PATIENT,
        )
        match case.kind:
            case "left":
                return await _left(stream, case)
            case "cancelled":
                return await _cancelled(stream, case)
            case "unread":
                await stream.aclose()
                return None
        try:
            answer = await stream.collect()
        except ls.LLMStreamError as error:
            return _failed(case, error)
        if case.kind in _WANTED:
            return "it was taken for whole"
        return None if answer.text == case.text else f"it said {answer.text!r}"

    def _model(self, wire: str) -> ls.Model:
        if wire not in self._models:
            _, provider = dialect_of(wire)
            self._models[wire] = ls.Model(f"{provider}:m", base_url=self._url, api_key="not-used")
        return self._models[wire]


def _failed(case: Case, error: ls.LLMStreamError) -> str | None:
    text = error.partial.text if error.partial is not None else ""
    if not case.text.startswith(text):
        return f"what is kept of it is {text!r}"
    if case.kind == "refused" and isinstance(error, ls.RateLimited | ls.Overloaded | ls.ProviderError):
        return None  # the budget for retries was spent
    wanted = _WANTED.get(case.kind, ())
    return None if isinstance(error, wanted) else f"{type(error).__name__}: {error}"


async def _left(stream: ls.EventStream, case: Case) -> str | None:
    """After some events the loop is broken off."""
    count = 0
    async with stream:
        async for _ in stream:
            count += 1
            if count > case.words * case.place / 3:
                break
    text = stream.message.text
    return None if case.text.startswith(text) else f"what is kept of it is {text!r}"


async def _cancelled(stream: ls.EventStream, case: Case) -> str | None:
    """At some moment the task that reads is cancelled."""
    task = asyncio.create_task(stream.collect())
    await asyncio.sleep(case.place / 2)
    if not task.cancel():
        return "it ended before it could be cancelled"
    try:
        await task
    except asyncio.CancelledError:
        return None
    except ls.LLMStreamError as error:
        return f"{type(error).__name__}: {error}"
    return "it was not cancelled"
