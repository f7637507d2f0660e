"""`map()` and its options, which are checked before anything is sent."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, cast, overload

import msgspec

from llmstream.chats.message import Role
from llmstream.errors import InvalidRequest
from llmstream.mapping.asking import AdaptiveConcurrency, Asker, Price
from llmstream.mapping.keep import Identity, Keep
from llmstream.mapping.lines import JSONLines, Lines
from llmstream.mapping.row import prompt_function, prompt_name
from llmstream.mapping.run import MapRun, Plan
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt, StreamOptions, with_defaults, with_output
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.chats.message import Message
    from llmstream.structured import Output

__all__ = [
    "asked_of",
    "identity_of",
    "list_prices",
    "make",
    "map",
    "open_keep",
]

Item = TypeVar("Item")
T = TypeVar("T")

# More at once than usual tiers take; the first refusals lower it.
_CONCURRENCY: Final = 100

# Limits are counted by the minute; after ten of them without an answer, it is another limit.
_PATIENCE_S: Final = 600.0

_AHEAD: Final = 2
# Items in progress or waiting for the reader, as a multiple of the concurrency. In order, one slow answer
# holds back the others.
_AHEAD_ORDERED: Final = 16


class _MapOptions(StreamOptions, total=False):
    """The options of `map` besides model, items and output; they are described there."""

    prompt: str | Callable[[Any], Prompt] | None
    concurrency: int
    ordered: bool
    keep: str | os.PathLike[str] | None
    retry_failed: bool
    fallback: Sequence[str | Model[Any]]
    max_cost: float | None
    price: Price | None
    dedupe: bool
    patience_s: float


@overload
def map(
    model: str,
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    output: None = None,
    **options: Unpack[_MapOptions],
) -> MapRun[Item, Message]: ...


@overload
def map(
    model: Model[T],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    output: None = None,
    **options: Unpack[_MapOptions],
) -> MapRun[Item, T]: ...


@overload
def map(
    model: str | Model[Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    output: type[T] | Output[T],
    **options: Unpack[_MapOptions],
) -> MapRun[Item, T]: ...


@overload
def map(
    model: str | Model[Any],
    items: Iterable[Item] | AsyncIterable[Item],
    *,
    output: Any,
    **options: Unpack[_MapOptions],
) -> MapRun[Item, Any]: ...


def map(  # the overloads have the types
    model: str | Model[Any],
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    output: Any = None,
    prompt: str | Callable[[Any], Prompt] | None = None,
    concurrency: int = _CONCURRENCY,
    ordered: bool = False,
    keep: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    fallback: Sequence[str | Model[Any]] = (),
    max_cost: float | None = None,
    price: Price | None = None,
    dedupe: bool = True,
    patience_s: float = _PATIENCE_S,
    **options: Any,
) -> MapRun[Any, Any]:
    """Sends one request per item to a model, many concurrently, and yields the results as they complete.

        async with ls.map("openai:gpt-5-mini", reviews, prompt="Classify: {{text}}") as run:
            async for done in run:
                print(done.item, done.value)

    An item that fails does not end the run: its result has the `error`. A rate limit fails no item; it
    waits. The run ends with an exception where every item would fail: a wrong key, a used-up quota, a
    full disk, `max_cost` (LimitExceeded). Requests in progress are finished first, and their results yielded.

    model:        a `Model`, or "provider:model"
    items:        any iterable, async too, of any length; read as needed. A generator is closed at the end
    output:       the type of each answer; see `Model.ask`
    prompt:       a template with `{{column}}` for the columns of an item, or a function that makes the
                  prompt of an item. By default the item: a text, a message, a conversation; of a mapping
                  its column "prompt" or "messages"
    concurrency:  the maximum number of concurrent requests. It begins with 8, doubles while nothing is
                  refused, and halves when the vendor refuses because of load
    ordered:      give results in the order of the items; else as they are done
    keep:         a file of JSON lines to which each result is written when it is there. The same call
                  continues from it: stored rows are not requested again, and yield results with `stored`
    retry_failed: retry the failed items of the file
    fallback:     models to use if the first fails
    max_cost:     start no more requests when the cost, that of the file included, comes to this; in the
                  unit of `price`. Requests in progress are finished
    price:        as for `Agent`; by default `llmstream.prices.price`, if the extra `prices` is installed
    dedupe:       send the same request once, and give its answer to each item
    patience_s:   end the run after this many seconds in which the vendor refused everything
    options:      those of `Model.stream`
    raises:       InvalidRequest for invalid options, at once; when read, for a file of another run
    """
    lines = None if keep is None else _lines(keep)
    return make(
        model,
        items,
        options=with_output(output, cast(Options, options)),
        prompt=prompt,
        concurrency=concurrency,
        ordered=ordered,
        keep=keep,
        lines=lines,
        retry_failed=retry_failed,
        fallback=fallback,
        max_cost=max_cost,
        price=price,
        dedupe=dedupe,
        patience_s=patience_s,
    )


def make(
    model: str | Model[Any],
    items: Iterable[Any] | AsyncIterable[Any],
    *,
    options: Options,
    prompt: str | Callable[[Any], Prompt] | None,
    concurrency: int,
    ordered: bool,
    keep: str | os.PathLike[str] | None,
    lines: Lines | None,
    retry_failed: bool = False,
    fallback: Sequence[str | Model[Any]] = (),
    max_cost: float | None = None,
    price: Price | None = None,
    dedupe: bool = True,
    patience_s: float = _PATIENCE_S,
    show_stored: bool = True,
    sort: bool | None = None,
    prompt_id: str | None = None,
) -> MapRun[Any, Any]:
    """Makes a run, for `map` and for the command.

    lines:       the format of the file
    show_stored: whether results of earlier runs are yielded
    sort:        whether the file is put in the order of the items at the end; by default if `ordered`
    prompt_id:   identifies this form of the prompt, for a file
    """
    asked = model if isinstance(model, Model) else Model(model)
    others = [other if isinstance(other, Model) else Model(other) for other in fallback]
    given = with_defaults(asked.options, options)
    output = _output(given)
    request = asked.request("?", **options)  # invalid options fail at once
    price = price or list_prices()
    _check_cost(max_cost, price, [asked, *others])
    gate = AdaptiveConcurrency(concurrency)
    retry = given.get("retry") or asked.retry
    asker = Asker(
        [asked, *others],
        with_output(output, options),
        retry=retry,
        gate=gate,
        price=price,
        patience_s=patience_s,
    )
    identity = identity_of(asked, prompt_name(prompt) if prompt_id is None else prompt_id, request)
    plan = Plan(
        items=items,
        prompt_of=prompt_function(prompt),
        asker=asker,
        gate=gate,
        ordered=ordered,
        ahead=concurrency * (_AHEAD_ORDERED if ordered else _AHEAD),
        output=output,
        keep=partial(open_keep, keep, lines, identity, retry_failed) if keep is not None and lines else None,
        max_cost=max_cost,
        dedupe=dedupe,
        show_stored=show_stored,
        sort=ordered if sort is None else sort,
    )
    return MapRun(plan)


def open_keep(keep: str | os.PathLike[str], lines: Lines, identity: Identity, retry_failed: bool) -> Keep:
    """Opens an output file; drops the lines of failed items if they should be retried.

    raises: InvalidRequest, KeepFailed
    """
    opened = Keep(keep, lines, identity)
    try:
        if retry_failed:
            opened.drop_failed()
    except BaseException:
        opened.close()
        raise
    return opened


def identity_of(model: Model[Any], prompt_id: str, request: Any) -> Identity:
    """What makes two runs into one file the same."""
    return Identity(_name(model), prompt_id, asked_of(model, request))


def _lines(keep: str | os.PathLike[str]) -> Lines:
    suffix = os.path.splitext(os.fspath(keep))[1].lower()
    if suffix in (".csv", ".tsv", ".json", ".parquet"):
        raise InvalidRequest(
            f"keep={os.fspath(keep)!r}: the file has JSON lines, so name it .jsonl. "
            "`llmstream map` writes CSV as well."
        )
    return JSONLines()


def _output(options: Options) -> Output | None:
    if options.get("output") is None:
        return None
    from llmstream.structured import as_output  # loaded only for structured output

    return as_output(options["output"])


def list_prices() -> Price | None:
    """The list prices; None where they are not installed."""
    if importlib.util.find_spec("genai_prices") is None:
        return None
    from llmstream.prices import price

    return price


def _check_cost(max_cost: float | None, price: Price | None, models: Sequence[Model[Any]]) -> None:
    """raises: InvalidRequest for a limit that could not be obeyed"""
    if max_cost is None:
        return
    if not max_cost > 0:
        raise InvalidRequest(f"max_cost must be a positive amount, got {max_cost!r}")
    if price is None:
        raise InvalidRequest(
            "max_cost needs prices: pip install 'llmstream-sdk[prices]', or pass price=, a function."
        )
    for model in models:
        if price(_name(model), Usage(1000, 1000)) is None:
            raise InvalidRequest(
                f"no price of {_name(model)} is known, so max_cost cannot be enforced. Leave it out, or pass "
                "price=, a function of model and usage."
            )


def _name(model: Model[Any]) -> str:
    return f"{model.provider.name}:{model.name}"


def asked_of(model: Model[Any], request: Any) -> dict[str, Any]:
    """The common part of all requests: without prompt, headers and defaults."""
    names = ("tools", "tool_choice", "settings", "response_format", "reasoning", "provider_options")
    found = {name: msgspec.to_builtins(getattr(request, name)) for name in names}
    found["system"] = "\n".join(m.text for m in request.messages if m.role == Role.SYSTEM)
    found["base_url"] = model.base_url
    return {name: value for name, value in found.items() if value}
