"""Fallback to other models when one fails."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from llmstream.chats.content import OWN_KEY
from llmstream.errors import ErrorInfo, InvalidRequest, LLMStreamError
from llmstream.events import (
    NO_CONTENT,
    ErrorEvent,
    Event,
    Finish,
    OtherWarning,
    ResponseMetadata,
    RetryNotice,
    StreamStart,
    Warning,
)
from llmstream.request import Request
from llmstream.streams.attempts import worth_another
from llmstream.streams.model import Model

if TYPE_CHECKING:
    from llmstream.middleware.wrapping import Ask, Middleware


__all__ = ["fallback"]

When: TypeAlias = Callable[[LLMStreamError], bool]

# The end of a failed answer; with `restart` it is held back, because the next model may take over.
_ENDS: Final = frozenset({ErrorEvent, Finish})


def fallback(*models: str | Model, restart: bool = False, when: When = worth_another) -> Middleware:
    """Requests the answer from the next model if one fails before the first content.

    Each model makes its own retries first. The failed models and their errors are in the warnings of
    `stream-start`, in the metadata of a `response-metadata` under "llmstream", and, if the last one
    fails too, in the error's `tried`.

    restart: also after content. A `retry` event then reports that what the step has streamed so far is
             void; a reader that has displayed it removes it
    when:    the errors after which the next model is tried; by default all but InvalidRequest and the
             total deadline
    raises:  InvalidRequest without models; when read, the error of the last model
    """
    others = [model if isinstance(model, Model) else Model(model) for model in models]
    if not others:
        raise InvalidRequest("fallback() needs at least one model to fall back to")

    async def fall_back(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        tried: list[tuple[str, ErrorInfo]] = []
        shown = False  # whether the reader has received content
        for at, model in enumerate((None, *others)):
            name = _name(model or ask.model)
            may_go_on = at < len(others)
            begun, held, failure = False, list[Event](), None
            try:
                async for event in ask(request, model):
                    if begun and (not may_go_on or not restart or type(event) not in _ENDS):
                        yield event
                        continue
                    # Buffered until the first content: the reader must not get the start of a failed model.
                    held.append(event)
                    if not begun and type(event) not in NO_CONTENT:
                        begun = shown = True
                        for first in _opening(held, name, tried):
                            yield first
                        held = []
            except LLMStreamError as error:
                failure = error
            if failure is not None:
                tried.append((name, failure.info))
                if may_go_on and when(failure) and (restart or not begun):
                    if shown:
                        # Readers drop the output of the failed model.
                        yield RetryNotice(
                            _failure_text(*tried[-1]), discard_step=0, attempt=len(tried), wait_s=0.0
                        )
                    continue
                # For the error: each requested model, and why it failed.
                failure.tried = tuple(tried)
            for event in held if begun else _opening(held, name, tried[:-1] if failure else tried):
                yield event
            if failure is not None:
                raise failure
            return

    fall_back.__name__ = "fallback"
    return fall_back


def _opening(held: list[Event], answers: str, tried: list[tuple[str, ErrorInfo]]) -> list[Event]:
    """The first events of an answer, with the record of the models that failed before."""
    if not tried:
        return held
    record = [{"model": name, "error": msgspec.to_builtins(info)} for name, info in tried]
    known = ResponseMetadata(provider_metadata={OWN_KEY: {"answered_by": answers, "tried": record}})
    warnings: list[Warning] = [
        OtherWarning(f"{_failure_text(name, info)}; the next model was used") for name, info in tried
    ]
    opening: list[Event] = []
    for event in held:
        if isinstance(event, StreamStart):
            opening += [StreamStart([*warnings, *event.warnings]), known]
        else:
            opening.append(event)
    return opening


def _failure_text(name: str, info: ErrorInfo) -> str:
    return f"{name} failed ({info.code}): {info.message}"


def _name(model: Model) -> str:
    return f"{model.provider.name}:{model.name}"
