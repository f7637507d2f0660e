"""A context effect: a function from messages to messages, which may also replace the run's history."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from llmstream.chats.message import Message, RepeatedCopies, Role
from llmstream.errors import InvalidRequest
from llmstream.streams.history import Repairs
from llmstream.tools.signature import takes
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.agent.state import RunState

__all__ = ["ContextEffect", "Effect", "RunEffects", "applied", "replaces", "spend"]


_Shown: TypeAlias = Iterable[Message] | Awaitable[Iterable[Message]]

ContextEffect: TypeAlias = "Callable[[list[Message]], _Shown] | Callable[[list[Message], RunState], _Shown]"
"""Receives the conversation and returns the messages to send; sync or async.

A function with a second parameter also receives the `RunState`.
"""

Spend: TypeAlias = Callable[[str, Usage], None]
"""Called with a model ("provider:model") and the tokens that an effect used."""

_spend: ContextVar[Spend | None] = ContextVar("llmstream_context_spend", default=None)


@dataclass(frozen=True, slots=True)
class Effect:
    """A context effect with its options.

    replace: also replaces the run's history; else only the request changes
    begun:   creates the function for one run, so that it can store state within the run
    """

    function: ContextEffect
    replace: bool = False
    begun: Callable[[], ContextEffect] | None = None

    @classmethod
    def remembering(cls, begun: Callable[[], ContextEffect], replace: bool) -> Effect:
        """An effect with state per run; called directly, it has none."""
        return cls(lambda messages: _given(begun(), messages, None), replace, begun)

    def __call__(self, messages: list[Message]) -> Iterable[Message] | Awaitable[Iterable[Message]]:
        """Applies the function outside a run.

        raises: InvalidRequest if it takes the state of a run
        """
        return _given(self.function, messages, None)


class RunEffects:
    """Applies effects at each step of one run, without processing earlier messages again."""

    def __init__(self, effects: Iterable[ContextEffect]) -> None:
        # One for each effect: each gets the messages that the previous effect returned.
        self._effects = [(effect, _function(effect), Repairs()) for effect in effects]
        self._copies = RepeatedCopies()
        self._repairs = Repairs()

    def __bool__(self) -> bool:
        return bool(self._effects)

    async def applied(
        self, messages: Iterable[Message], *, spend: Spend | None = None, state: RunState | None = None
    ) -> list[Message]:
        """See the function `applied`."""
        # Copies, because an effect is the caller's code and may modify its arguments; the history must not
        # change.
        shown = self._repairs.repair(self._copies.of(messages))[0]
        with counted(spend):
            for effect, function, repairs in self._effects:
                # A separate list: the effect may store and modify it.
                given = _given(function, list(shown), state)
                found = await given if inspect.isawaitable(given) else given
                # After each effect: one that cuts messages may leave a call without its result, which vendors
                # refuse.
                left = repairs.repair(_messages(effect, found))[0]
                shown = _from_a_user(left) if _begins_with_a_user(shown) else left
        return shown


def replaces(effect: ContextEffect) -> bool:
    """Whether the effect also replaces the history."""
    return isinstance(effect, Effect) and effect.replace


async def applied(
    messages: Iterable[Message],
    effects: Iterable[ContextEffect],
    *,
    spend: Spend | None = None,
    state: RunState | None = None,
) -> list[Message]:
    """Applies the effects in order; the result is a complete history, as vendors require.

    messages: are not changed; effects receive copies
    spend:    called with the tokens that effects use
    state:    of the run, for effects that take it
    raises:   exceptions of effects; InvalidRequest if one returns anything but messages, or takes the
              state of a run and there is none
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
        raise InvalidRequest(
            f"the context effect {function!r} takes the state of a run, but was called outside a run"
        )
    return cast(_Shown, function(messages, state))


def spend(model: str, usage: Usage) -> None:
    """Adds tokens to the run that applies the effects, if there is one."""
    receiver = _spend.get()
    if receiver is not None:
        receiver(model, usage)


@contextmanager
def counted(receiver: Spend | None) -> Iterator[None]:
    """Within the block, `spend` calls this receiver. The block must not contain a `yield`."""
    # An effect may call a model without access to the run; the context variable adds its tokens to the run.
    token = _spend.set(receiver)
    try:
        yield
    finally:
        _spend.reset(token)


def _begins_with_a_user(messages: Sequence[Message]) -> bool:
    # OpenAI's other name of a system message.
    roles = (message.role for message in messages if message.role not in (Role.SYSTEM, "developer"))
    return next(roles, None) == Role.USER


def _from_a_user(messages: list[Message]) -> list[Message]:
    """Drops the rest of a turn whose user message was dropped: some vendors require a user message first."""
    first = next((i for i, m in enumerate(messages) if m.role == Role.USER), None)
    if not first:
        return messages
    return [m for m in messages[:first] if m.role in (Role.SYSTEM, "developer")] + messages[first:]


def _messages(effect: ContextEffect, given: Iterable[Message]) -> Sequence[Message]:
    try:
        found = list(given)
    except TypeError:
        found = [None]  # type: ignore[list-item]  # refused below
    # By kinds, in C: all messages are checked at each step.
    if not all(issubclass(kind, Message) for kind in set(map(type, found))):
        raise InvalidRequest(f"the context effect {effect!r} did not return a list of messages")
    return found
