"""Cassettes: the answers of a test's models, as events, recorded once and replayed from then on."""

from __future__ import annotations

import asyncio
import os
import sys
import warnings
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractContextManager, aclosing
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, Self, TypeAlias, cast, get_args

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.events import Event, Finish, ReasoningDelta, TextDelta, ToolInputDelta
from llmstream.middleware.caching.form import Answer, Times, play, speed_of
from llmstream.middleware.wrapping import Ask, MiddlewareOpener
from llmstream.request import Request
from llmstream.simulator.recording import overwritten
from llmstream.streams.call import Call
from llmstream.streams.model import OVER_HTTP, Model, intercepted
from llmstream.streams.options import Options
from llmstream.testing.cassette_file import (
    Recorded,
    difference,
    nearest,
    read_cassette,
    shown_request,
    write_cassette,
)

__all__ = ["Cassette", "CassetteMode", "CassetteWarning", "UnrecordedRequest", "cassette"]

CassetteMode: TypeAlias = Literal["once", "none", "new", "all"]
"""What happens to a request: see `cassette`."""

_VARIABLE: Final = "LLMSTREAM_CASSETTES"


class UnrecordedRequest(AssertionError):
    """A request has no answer in its cassette, and may not be sent."""


class CassetteWarning(UserWarning):
    """A request differs from the recorded one whose answer it gets."""


def cassette(
    name: str | os.PathLike[str],
    mode: CassetteMode | None = None,
    *,
    folder: str | os.PathLike[str] | None = None,
    times: Times = "none",
    scrub: Iterable[str] = (),
) -> Cassette:
    """Records the answers that models give within a `with` block, and replays them from then on.

        with cassette("greeting"):
            answer = await ls.Model("openai:gpt-5-mini").ask("Hi")

    Also a middleware, for one model: `wrap(model, cassette("greeting"))`. Events are stored, not bytes, so
    the file is the same for every vendor. It has neither headers nor addresses; keys of the model are
    overwritten with asterisks wherever they occur.

    A request gets the recorded answer to an equal one; among equal ones the order counts. Account, address
    and headers do not count, so that others can replay it without a key.

    name:   of the file, without ".json"
    mode:   "once" records if there is no file. If there is one, a request that differs gets the next answer
            in order, with a warning that shows the difference. "none" sends nothing: a request without
            an equal one fails. "new" replays what is recorded, and records the rest. "all" records
            everything again. Default: once. The environment variable LLMSTREAM_CASSETTES overrides it
    folder: of the file; default: `cassettes` beside the caller's file
    times:  the pace of a replay, as for `cache`
    scrub:  other secrets to overwrite
    raises: InvalidRequest for an invalid mode. When asked: UnrecordedRequest, an AssertionError, for a
            request that has no answer; InvalidRequest for a damaged file
    """
    if folder is None:
        # Beside the test, whatever the working directory of pytest is.
        caller = sys._getframe(1).f_globals.get("__file__")
        folder = Path(caller).parent / "cassettes" if caller else Path("cassettes")
    return Cassette(Path(folder) / f"{os.fspath(name)}.json", mode, times=times, scrub=scrub)


def _mode(given: str | None) -> CassetteMode:
    mode = os.environ.get(_VARIABLE) or given or "once"
    if mode not in get_args(CassetteMode):
        raise InvalidRequest(f'the mode of a cassette is "once", "none", "new" or "all", got {mode!r}')
    return cast(CassetteMode, mode)


class Cassette:
    """Answers in a file; `cassette` makes one. Not for two tests at the same time.

    path: of the file
    mode: after LLMSTREAM_CASSETTES was looked at
    """

    # Middleware is named in errors and logs, as functions are.
    __name__ = "cassette"

    def __init__(
        self,
        path: Path,
        mode: CassetteMode | None = None,
        *,
        times: Times = "none",
        scrub: Iterable[str] = (),
    ) -> None:
        self.path = path
        self.mode: CassetteMode = _mode(mode)
        self._speed = speed_of(times)
        self._scrub = tuple(scrub)
        self._answers: list[Recorded] | None = None
        self._unplayed: list[Recorded] = []
        self._records = self.mode in ("new", "all")
        self._block: AbstractContextManager[None] | None = None

    def __enter__(self) -> Self:
        self._block = intercepted(self)
        self._block.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        block, self._block = self._block, None
        if block is not None:
            block.__exit__(kind, error, trace)

    def open(self, model: Model, request: Request, options: Options | None, started: float | None) -> Call:
        """Opens the call of a model within the block, below its middleware."""
        return MiddlewareOpener(self, type(model), OVER_HTTP).open(model, request, options, started)

    async def __call__(self, request: Request, ask: Ask) -> AsyncGenerator[Event]:
        """The events of the answer, as a middleware yields them."""
        # Before the comparison: the file has asterisks too, and others replay it with another key or none.
        hide = _hiding([*ask.model.known_secrets(), *self._scrub])
        shown = hide(shown_request(ask.model.provider.name, request))
        found = self._find(shown)
        if found is None:
            recorded = Recorded(shown)
            self._loaded().append(recorded)  # the order is that of the requests
            events = self._recorded(recorded, ask, request, hide)
        else:
            assert found.answer is not None
            events = play(found.answer, self._speed)
        async with aclosing(events):
            async for event in events:
                yield event
        if found is not None and found.left:
            raise UnrecordedRequest(
                f"{self.path.name}: this recorded answer was not read to its end. "
                "Record it again with mode='all'."
            )

    async def _recorded(
        self, recorded: Recorded, ask: Ask, request: Request, hide: _Hide
    ) -> AsyncGenerator[Event]:
        clock = asyncio.get_running_loop().time
        began, events, timing = clock(), list[Event](), list[tuple[float, int]]()
        reply = ask(request)
        try:
            while batch := await reply.batch():
                events += batch
                timing.append((clock() - began, len(batch)))
                for event in batch:
                    yield event
        finally:  # whether it ended, failed or was left
            if events:
                recorded.left = type(events[-1]) is not Finish
                recorded.answer = Answer(_without_secrets(events, hide), timing)
                write_cassette(self.path, self._loaded())

    def _loaded(self) -> list[Recorded]:
        if self._answers is None:
            self._answers = []
            try:
                self._answers = [] if self.mode == "all" else read_cassette(self.path)
            except FileNotFoundError:
                self._records = self._records or self.mode == "once"
            self._unplayed = [*self._answers]
        return self._answers

    def _find(self, request: dict[str, Any]) -> Recorded | None:
        """The recorded answer; None if the request is to be sent.

        raises: UnrecordedRequest
        """
        self._loaded()
        found = next((each for each in self._unplayed if each.request == request), None)
        if found is None and self._records:
            return None
        if found is None and self.mode == "once" and self._unplayed:
            # A prompt that was reworded should not stop a test run; the warning shows what differs.
            found = self._unplayed[0]
            warnings.warn(
                f"{self.path.name}: a request gets the next answer in order, because none was recorded for "
                f"it. Record it again with mode='all'.\n{difference(request, found.request)}",
                CassetteWarning,
                stacklevel=2,
            )
        if found is None:
            raise UnrecordedRequest(self._miss(request))
        self._unplayed.remove(found)
        return found

    def _miss(self, request: dict[str, Any]) -> str:
        remedy = "Record it with mode='new', or everything again with mode='all'."
        recorded = self._loaded()
        if not recorded:
            return f"there is no cassette {self.path}, and mode={self.mode!r} sends nothing. {remedy}"
        same = sum(each.request == request for each in recorded)
        if same:
            return f"{self.path.name} has {same} answers to this request, and it was sent once more. {remedy}"
        near = nearest(request, self._unplayed or recorded)
        assert near is not None
        return (
            f"{self.path.name} has no answer to this request, which differs from the nearest recorded one. "
            f"{remedy}\n{difference(request, near.request)}"
        )


_Hide: TypeAlias = Callable[[Any], Any]


def _hiding(secrets: Iterable[str]) -> _Hide:
    """A function that overwrites secrets in a value of JSON, keys of objects included."""
    # The longest first: a secret may be part of another.
    hidden = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    if not hidden:
        return lambda value: value
    return lambda value: msgspec.json.decode(overwritten(msgspec.json.encode(value), hidden))


def _without_secrets(events: list[Event], hide: _Hide) -> list[Event]:
    """The events with secrets overwritten, also those that are spread over deltas."""
    # By block: deltas of several may alternate.
    texts: dict[tuple[type, str], list[str]] = {}
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta):
            texts.setdefault((type(event), event.id), []).append(event.delta)
    pieces = {block: iter(_pieces(deltas, hide)) for block, deltas in texts.items()}
    shown: list[Event] = []
    for event in events:
        if isinstance(event, TextDelta | ReasoningDelta | ToolInputDelta):
            event = msgspec.structs.replace(event, delta=next(pieces[type(event), event.id]))
        shown.append(_hidden(event, hide))
    return shown


def _hidden(event: Event, hide: _Hide) -> Event:
    data: Mapping[str, Any] = msgspec.json.decode(msgspec.json.encode(event))
    covered = hide(data)
    return event if covered == data else msgspec.convert(covered, Event)


def _pieces(deltas: list[str], hide: _Hide) -> list[str]:
    """The deltas, with secrets in their sum overwritten without changing the length."""
    text = "".join(deltas)
    covered: str = hide(text)
    if len(covered) != len(text):  # a secret outside of ASCII has more bytes than characters
        return [covered, *[""] * (len(deltas) - 1)]
    pieces, start = list[str](), 0
    for delta in deltas:
        pieces.append(covered[start : start + len(delta)])
        start += len(delta)
    return pieces
