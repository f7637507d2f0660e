"""The rows of a batch: their prompts, their requests and the ids of these, and the results that they get."""

from __future__ import annotations

import codecs
import copy
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from llmstream.accumulate.accumulator import Accumulator
from llmstream.batches.apis import BatchApi, Outcome
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, Dialect
from llmstream.errors import InvalidRequest, LLMStreamError, ServerError, error_from_info
from llmstream.events import ErrorEvent, Event, Finish, Warning
from llmstream.mapping.asking import Price
from llmstream.mapping.result import MapResult
from llmstream.mapping.row import Row, row_of
from llmstream.request import Request
from llmstream.streams.call_plan import in_output_mode
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt
from llmstream.streams.reading import final_object
from llmstream.structured import Output
from llmstream.usage import Usage

__all__ = ["Reader", "Rows", "Waiting", "Written", "lines_in", "not_made", "own_options", "written"]

# What the vendor has around the body of a request: its id, method and path.
_AROUND_BYTES: Final = 200
_OF_STREAMS: Final = ("stream", "stream_options")


class Rows:
    """All rows, by the ids of their requests.

    dedupe: rows with the same prompt share one request

    places: by id, the places of its rows
    failed: places of rows without a prompt, with the error
    """

    def __init__(self, items: Iterable[Any], prompt_of: Callable[[Any], Prompt], *, dedupe: bool) -> None:
        self.items = items if isinstance(items, list) else list(items)
        self.places: dict[str, list[int]] = {}
        self.failed: list[tuple[int, LLMStreamError]] = []
        self._prompt_of = prompt_of
        for index in range(len(self.items)):
            row = self.row(index)
            if row.error is not None:
                self.failed.append((index, row.error))
                continue
            request = f"{row.request:016x}"
            if not dedupe:
                request = self._unused(row.request)
            self.places.setdefault(request, []).append(index)

    def _unused(self, request: int) -> str:
        # In the order of the rows, so that each run gives a row the same id.
        while (name := f"{request:016x}") in self.places:
            request = (request + 1) % 2**64
        return name

    def row(self, index: int) -> Row[Any]:
        """The row of an item, with its prompt."""
        return row_of(self.items[index], index, self._prompt_of)

    def prompt(self, request: str) -> Prompt:
        """The prompt of a request."""
        return self.row(self.places[request][0]).prompt

    def __len__(self) -> int:
        return len(self.items)


@dataclass(slots=True)
class Waiting:
    """Requests of the next part."""

    bodies: list[tuple[str, bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def has_room(self, size: int, api: BatchApi) -> bool:
        """Whether another request fits the vendor's limits; the first always does."""
        return not self.bodies or (len(self.bodies) < api.max_rows and self.size + size <= api.max_bytes)

    def add(self, request: str, body: bytes, headers: dict[str, str]) -> None:
        """Adds a request."""
        self.bodies.append((request, body))
        self.headers.update(headers)
        self.size += len(body) + _AROUND_BYTES


@dataclass(frozen=True)
class Reader:
    """Turns an outcome into the results of its rows.

    dialect: of the part that it belongs to
    share:   of the price of single requests
    """

    model: Model[Any]
    dialect: Dialect
    reading: Callable[[Decoder], Decoder]
    output: Output | None
    price: Price | None
    share: float

    def result(self, outcome: Outcome) -> MapResult[Any, Any]:
        """The result, without its row."""
        name = f"{self.model.provider.name}:{self.model.name}"
        if outcome.status == 0:
            return MapResult(item=None, index=0, error=not_made(), attempts=1, model=name)
        if outcome.status >= 400:
            refused = self.model._decode_error(outcome.status, {}, outcome.body)
            return MapResult(item=None, index=0, error=refused, attempts=1, model=name)
        answer = read_answer(self.dialect, outcome.body, self.reading, provider=self.model.provider.name)
        value: Any = answer.message
        error = answer.error
        if error is None and self.output is not None:
            try:
                value = final_object(answer.message, answer.finish_reason, self.output)
            except LLMStreamError as invalid:
                error = invalid
        return MapResult(
            item=None,
            index=0,
            message=None if error is not None else answer.message,
            error=error,
            usage=answer.usage,
            cost=self._cost(name, answer.usage),
            attempts=1,
            model=name,
            finish_reason=answer.finish_reason if error is None else None,
            _value=None if error is not None else value,
        )

    def _cost(self, name: str, usage: Usage) -> float | None:
        cost = None if self.price is None else self.price(name, usage)
        return None if cost is None else cost * self.share


def not_made() -> LLMStreamError:
    """The error of a request that the vendor did not get to."""
    return ServerError(
        "the vendor did not make this request: its batch expired or was cancelled. Submit it again.",
        retryable=True,
        reason="expired",
    )


def own_options(options: Options) -> dict[str, Any]:
    """The options of the requests: those about sending one are the engine's."""
    about_sending = ("retry", "deadlines", "limiter", "observe", "background")
    # A background response has an id of its own to be fetched by, which a batch cannot give.
    refused = [name for name in ("background",) if options.get(name)]
    if refused:
        raise InvalidRequest(f"a batch does not support {refused[0]}. Leave it out.")
    return {name: value for name, value in options.items() if name not in about_sending}


def lines_in(path: str) -> Iterator[bytes]:
    """The lines of a file of results."""
    with open(path, "rb") as file:
        for line in file:
            # A file may begin with a byte order mark, and several of a vendor are one file here.
            found = line.removeprefix(codecs.BOM_UTF8)
            if found.strip():
                yield found


class Written(NamedTuple):
    """A request in the form that a vendor's batch API accepts.

    url:     its path in the dialect
    headers: in addition to those of each request: versions and betas
    reading: wraps the decoder of its answer
    """

    url: str
    body: dict[str, Any]
    headers: dict[str, str]
    dialect: Dialect
    reading: Callable[[Decoder], Decoder]
    warnings: list[Warning]


async def written(model: Model[Any], request: Request) -> Written:
    """Writes a request without streaming.

    raises: InvalidRequest, Unsupported
    """
    wire = model._wire(request)
    if wire is not None:
        model = copy.copy(model)
        model.provider = replace(model.provider, dialect=wire.dialect)
    sent, reading = in_output_mode(model, request)
    encoded = (await model._prepare(sent, "")).encoded
    body = {name: value for name, value in encoded.http.json().items() if name not in _OF_STREAMS}
    unlike = ("content-type", "accept")
    headers = {n: v for n, v in encoded.http.headers.items() if n.lower() not in unlike}
    return Written(encoded.http.url, body, headers, model.provider.dialect, reading, list(encoded.warnings))


class CompleteAnswer(NamedTuple):
    """An answer received in one piece."""

    message: Message
    usage: Usage
    finish_reason: str | None
    error: LLMStreamError | None


def read_answer(
    dialect: Dialect, body: bytes, reading: Callable[[Decoder], Decoder], *, provider: str
) -> CompleteAnswer:
    """Decodes a complete body; `error` is set if it is an error or an incomplete answer."""
    accumulator = Accumulator()
    events = dialect.decode_complete(body, provider=provider, reading=reading)
    accumulator.feed_many(events)
    finish = _finish(events)
    error = next((error_from_info(e.error) for e in events if isinstance(e, ErrorEvent)), None)
    message = accumulator.message or Message.assistant("")
    return CompleteAnswer(message, finish.usage, finish.finish_reason, error)


def _finish(events: list[Event]) -> Finish:
    last = events[-1]
    assert isinstance(last, Finish)  # the last event of the stream grammar
    return last
