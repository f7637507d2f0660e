"""The translate lane: the client's request to any model, and its events back onto the client's wire."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any, Final

import msgspec

from llmstream.errors import (
    ErrorInfo,
    IncompleteStream,
    LLMStreamError,
)
from llmstream.events import (
    NO_CONTENT,
    ErrorEvent,
    Event,
    Finish,
    OtherWarning,
    ReasoningDelta,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    ToolInputDelta,
    Warning,
)
from llmstream.exchange import HttpResponse
from llmstream.gateway.accounts import Account
from llmstream.gateway.client_wire import ClientCall, client_error, error_reply, sent_headers
from llmstream.gateway.routes import Target
from llmstream.request import Request
from llmstream.server_side.wires import EventEncoder
from llmstream.streams.attempts import worth_another
from llmstream.streams.model import Model
from llmstream.usage import Usage

__all__ = ["Events", "complete_reply"]

# Events that also occur in a response without content.
_OF_REFUSALS: Final = frozenset({StreamStart, ResponseMetadata, ErrorEvent, Finish})

Warned = Callable[[Sequence[Warning]], object]


class Events:
    """The events of the first model that reaches its first content; an error if none does.

    Closing it closes the vendor's socket. The account is settled in any case.

    warned: called with the warnings of the responding model, before its first content
    """

    def __init__(
        self,
        request: Request,
        targets: Sequence[tuple[Model[Any], Target]],
        account: Account,
        warned: Warned,
    ) -> None:
        self._account = account
        self._events = self._read(request, targets, warned)
        self._take: Callable[[list[Event]], bool] | None = None

    def __aiter__(self) -> AsyncGenerator[Event]:
        return self._events

    async def aclose(self) -> None:
        """Closes the model's call."""
        await self._events.aclose()

    def pour(self, take: Callable[[list[Event]], bool]) -> None:
        """Passes batches to `take` as they arrive, without waking waiting tasks; see `serve.Body.pour`."""
        self._take = take

    def _counted(self, events: list[Event]) -> bool:
        """Consumes a batch directly in the callback of the model's call."""
        if self._take is None or not self._take(events):
            return False
        self._account.chars += _chars_of(events)
        return True

    async def _read(
        self, request: Request, targets: Sequence[tuple[Model[Any], Target]], warned: Warned
    ) -> AsyncGenerator[Event]:
        account = self._account
        try:
            for number, (model, target) in enumerate(targets, 1):
                account.asked(model, target)
                held, failure = list[Event](), None
                sent, dropped = _for_model(request, model, account.row.wire)
                answer = self._answer(model, sent)
                try:
                    async for event in answer:
                        # From here on nothing is buffered: the client gets each event as it arrives.
                        if account.began:
                            yield event
                            continue
                        held.append(event)
                        if type(event) is StreamStart:
                            warned([*dropped, *event.warnings])
                        if type(event) not in NO_CONTENT:
                            account.begin()
                            for first in held:
                                yield first
                            held = []
                except LLMStreamError as error:
                    failure = error
                finally:
                    await answer.aclose()
                more = number < len(targets)
                if failure is not None and not account.began and more and worth_another(failure):
                    account.failed_over(failure.info)
                    continue
                if failure is not None:
                    account.failed(failure.info)
                    # Held back: an open block would fix the status, and a failure before any content has its
                    # own status.
                    held = [event for event in held if type(event) in _OF_REFUSALS]
                for event in held:
                    yield event
                if failure is not None:
                    raise failure
                return
        finally:
            account.settle()

    async def _answer(self, model: Model[Any], request: Request) -> AsyncGenerator[Event]:
        """Yields the events of one model, and counts its output.

        raises: LLMStreamError after the finish of a failed response
        """
        account, call = self._account, model.call(request)
        pour = getattr(call, "pour", None)  # middleware calls have none
        try:
            while batch := await call.next():
                account.chars += _chars_of(batch)
                for event in batch:
                    yield self._finished(event) if type(event) is Finish else event
                # The generator is suspended in `next` with its locals alive; the events of a batch are freed
                # before it waits.
                batch = []
                if pour is not None and self._take is not None:
                    pour(self._counted)
                    pour = None
        finally:
            if not account.complete:
                account.usage = call.usage
            await call.aclose()
        if call.error is not None:
            raise call.error

    def _finished(self, finish: Finish) -> Finish:
        """Records the end, and returns it for the client's wire."""
        account = self._account
        account.usage = finish.usage
        account.complete = finish.finish_reason != "error"
        if account.wire == account.row.wire:
            return finish
        # The vendor's own finish reason is unknown on the client's wire.
        return msgspec.structs.replace(finish, usage=_portable(finish.usage), raw_finish_reason=None)


def _chars_of(events: list[Event]) -> int:
    chars = 0
    for event in events:
        kind = type(event)
        if kind is TextDelta or kind is ReasoningDelta or kind is ToolInputDelta:
            chars += len(event.delta)  # type: ignore[union-attr]  # the three above
    return chars


# Fields that both of OpenAI's APIs have; our key for their options is the same.
_SHARED: Final = frozenset({"metadata", "prompt_cache_key", "safety_identifier", "service_tier", "user"})
# Fields about the delivery to the client; the gateway itself always streams.
_OF_CLIENT: Final = frozenset({"stream", "stream_options"})


def _for_model(request: Request, model: Model[Any], wire: str) -> tuple[Request, list[Warning]]:
    """The request for one model, and the client's fields that it does not support.

    wire: of the client
    """
    foreign = wire != model.provider.dialect.name
    options, dropped = dict[str, dict[str, Any]](), list[str]()
    for key, fields in request.provider_options.items():
        kept = {name: value for name, value in fields.items() if name not in _OF_CLIENT}
        if foreign:
            dropped += [name for name in kept if name not in _SHARED]
            kept = {name: value for name, value in kept.items() if name in _SHARED}
        if kept:
            options[key] = kept
    # The client's credentials are for the gateway; the provider adds the model's.
    headers = sent_headers(request.headers, foreign=foreign)
    sent = msgspec.structs.replace(request, model=model.name, headers=headers, provider_options=options)
    text = f"{', '.join(sorted(dropped))}: {model.provider.name} has no such field"
    return sent, [OtherWarning(text)] if dropped else []


def _portable(usage: Usage) -> Usage:
    """The counts for another wire, with a total.

    The vendor's own object may look like one of the client's wire: Anthropic's has the names of the Responses
    API but no total, without which Codex 0.169 fails.
    """
    asked, made = usage.input_tokens, usage.output_tokens
    # No total if a part is missing: a partial sum would look like a count.
    known = usage.total_tokens is not None or asked is None or made is None
    total = usage.total_tokens if known else (asked or 0) + (made or 0)
    return msgspec.structs.replace(usage, total_tokens=total, raw=None)


async def complete_reply(client: ClientCall, encoder: EventEncoder, events: Events) -> HttpResponse:
    """Returns the response in one piece, or its error in the form of the client's wire."""
    side = client.side
    if side.complete_response is None:
        info = ErrorInfo(
            "bad-request", f"{side.name} has streamed responses only.", retryable=False, status=400
        )
        return error_reply(side, info)
    written, error, reason = list[bytes](), None, ""
    try:
        async for event in events:
            if isinstance(event, Finish):
                reason = event.finish_reason
            elif isinstance(event, ErrorEvent):
                error = event.error
            written.append(encoder.feed(event))
    except LLMStreamError as failed:
        error, reason = failed.info, "error"
    finally:
        await events.aclose()
    if reason in ("error", ""):
        return error_reply(side, client_error(error or IncompleteStream("the stream broke off").info))
    written.append(encoder.close())
    body = msgspec.json.encode(side.complete_response(b"".join(written)))
    return HttpResponse(200, body, {"content-type": "application/json", "cache-control": "no-store"})
