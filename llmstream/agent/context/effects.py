"""An effect: a function from messages to messages, and whether what it gives replaces the history."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast

from llmstream.chats.copying import RepeatedCopies
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs
from llmstream.tools.signature import takes
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.agent.state import RunState

__all__ = ["ContextEffect", "Effect", "RunEffects", "Scan", "applied", "is_count", "replaces", "spend"]


_Shown: TypeAlias = Iterable[Message] | Awaitable[Iterable[Message]]

ContextEffect: TypeAlias = "Callable[[list[Message]], _Shown] | Callable[[list[Message], RunState], _Shown]"
"""Given a conversation, gives what is to be shown of it; sync or async.

One with a second parameter is given the `RunState` of the run too.
"""

Spend: TypeAlias = Callable[[str, Usage], None]
"""Told of a model ("provider:model") and the tokens that an effect has used."""

_spend: ContextVar[Spend | None] = ContextVar("llmstream_context_spend", default=None)


@dataclass(frozen=True, slots=True)
class Effect:
    """An effect with its kind.

    replace: what it gives stands in the run's history too; else only the model's view is changed
    begun:   makes the function anew for one run, in which it may remember what it has read
    """

    function: ContextEffect
    replace: bool = False
    begun: Callable[[], ContextEffect] | None = None

    @classmethod
    def remembering(cls, begun: Callable[[], ContextEffect], replace: bool) -> Effect:
        """An effect that remembers in each run; called by itself, it remembers nothing."""
        return cls(lambda messages: _given(begun(), messages, None), replace, begun)

    def __call__(self, messages: list[Message]) -> Iterable[Message] | Awaitable[Iterable[Message]]:
        """What the function gives, where it needs no run."""
        return _given(self.function, messages, None)


class RunEffects:
    """The effects as they are applied at each step of one run; what has been read is not read again."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        self._effects = [(effect, _function(effect), Repairs()) for effect in effects]
        self._copies = RepeatedCopies()
        self._repairs = Repairs()

    def __bool__(self) -> bool:
        return bool(self._effects)

    async def applied(
        self, messages: Iterable[Message], *, spend: Spend | None = None, state: RunState | None = None
    ) -> list[Message]:
        """See the function of this name."""
        shown = self._repairs.repair(self._copies.of(messages))[0]
        with counted(spend):
            for effect, function, repairs in self._effects:
                given = _given(function, list(shown), state)
                found = await given if inspect.isawaitable(given) else given
                left = repairs.repair(_messages(effect, found))[0]
                shown = _from_a_user(left) if _begins_with_a_user(shown) else left
        return shown


def replaces(effect: ContextEffect) -> bool:
    """Whether what the effect gives stands in the history too."""
    return isinstance(effect, Effect) and effect.replace


async def applied(
    messages: Iterable[Message],
    effects: Iterable[ContextEffect],
    *,
    spend: Spend | None = None,
    state: RunState | None = None,
) -> list[Message]:
    """The conversation after the effects, one after the other; whole, as every vendor demands it.

    messages: stay as they are: effects are given copies
    spend:    is told of the tokens that effects use
    state:    of the run, for effects that take it
    raises:   what an effect raises; InvalidRequest where one gives no messages, or takes the state of a
              run and there is none
    """
    return await RunEffects(effects).applied(messages, spend=spend, state=state)


def _function(effect: ContextEffect) -> ContextEffect:
    if not isinstance(effect, Effect):
        return effect
    return effect.function if effect.begun is None else effect.begun()


def _given(function: Any, messages: list[Message], state: RunState | None) -> _Shown:
    if not takes(function, 2):
        return cast(_Shown, function(messages))
    if state is None:
        raise InvalidRequest(f"the context effect {function!r} takes the state of a run, and there is none")
    return cast(_Shown, function(messages, state))


def spend(model: str, usage: Usage) -> None:
    """Counts tokens in the run for which effects are at work, if there is one."""
    told = _spend.get()
    if told is not None:
        told(model, usage)


@contextmanager
def counted(told: Spend | None) -> Iterator[None]:
    """Within it, `spend` tells this one. It must not surround a `yield` of a generator."""
    token = _spend.set(told)
    try:
        yield
    finally:
        _spend.reset(token)


def is_count(value: object, least: int = 1) -> bool:
    """Whether it is a whole number, and not too small."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _begins_with_a_user(messages: Sequence[Message]) -> bool:
    said = (message.role for message in messages if message.role not in (Role.SYSTEM, "developer"))
    return next(said, None) == Role.USER


def _from_a_user(messages: list[Message]) -> list[Message]:
    """Without what is left of a turn whose question is gone: some vendors refuse to begin with an answer."""
    asked = next((i for i, m in enumerate(messages) if m.role == Role.USER), None)
    if not asked:
        return messages
    return [m for m in messages[:asked] if m.role in (Role.SYSTEM, "developer")] + messages[asked:]


def _messages(effect: ContextEffect, given: Iterable[Message]) -> Sequence[Message]:
    try:
        found = list(given)
    except TypeError:
        found = [None]  # type: ignore[list-item]  # refused below
    if not all(issubclass(kind, Message) for kind in set(map(type, found))):
        raise InvalidRequest(f"the context effect {effect!r} gave something that is no list of messages")
    return found


# Values along a conversation that grows, each found once.

V = TypeVar("V")

_content = attrgetter("sender", "role", "parts", "metadata")


class Scan(Generic[V]):
    """Gives a value for each message, which follows from the one before it.

    An effect is given the whole conversation at each step of a run; without this it would look
    through all of it again. Messages of before are compared with today's, in C and mostly by
    identity: where one was exchanged or changed, the scan begins anew.

    start: before the first message
    next:  the value of a message, given that of the one before
    """

    def __init__(self, start: V, next: Callable[[V, Message], V]) -> None:
        self._start = start
        self._next = next
        self._known: list[Any] = []
        self._values = [start]

    def of(self, messages: Sequence[Message]) -> list[V]:
        """The value before each message, and that at the end: one more than there are messages."""
        known = self._known
        if list(map(_content, messages[: len(known)])) != known:
            known.clear()
            self._values = [self._start]
        values = self._values
        for message in messages[len(known) :]:
            values.append(self._next(values[-1], message))
            known.append(_content(message))
        return values
