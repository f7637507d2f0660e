"""What a map yields: the result of an item, and the progress of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from llmstream.chats.message import Message
from llmstream.errors import LLMStreamError
from llmstream.usage import Usage

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    Item = TypeVar("Item", default=Any)
    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    Item = TypeVar("Item")
    T = TypeVar("T")

__all__ = ["MapProgress", "MapResult"]


@dataclass(slots=True, kw_only=True)
class MapResult(Generic[Item, T]):
    """The outcome of one item.

    item:     as it was given
    index:    its place among the items, from 0
    message:  the model's message; None if it failed. Of a stored result it has the text alone
    error:    why it failed; None if it did not
    usage:    tokens of its answer, repairs included; of an answer that was already given, none
    cost:     of those tokens, by the price list; None if the price is not known
    attempts: how often it was asked
    model:    "provider:model" that answered
    stored:   whether it comes from the file of an earlier run
    finish_reason: why the model ended; "length" for an answer that was cut
    """

    item: Item
    index: int
    message: Message | None = None
    error: LLMStreamError | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    attempts: int = 0
    model: str = ""
    stored: bool = False
    finish_reason: str | None = None
    _value: T | None = None

    @property
    def value(self) -> T:
        """The answer as `Model.ask` returns it: the value of `output`'s type, or the message.

        raises: the error of an item that failed
        """
        if self.error is not None:
            raise self.error
        return self._value  # type: ignore[return-value]  # set where there is no error


@dataclass(slots=True, kw_only=True)
class MapProgress:
    """Counts of a run, as they are now; those of the file of earlier runs are in them.

    done:      items that are over, failed ones included
    failed:    items that failed, by error code
    stored:    items that earlier runs had done
    reused:    items whose request was the same as another's, and was not sent again
    usage, cost: of all answers; cost is None while no price is known
    under_way: requests that wait for an answer
    concurrency: how many may be under way now
    refused:   how often the vendor refused because of load
    paused_s:  seconds until the next request may start, because the vendor asked to wait
    """

    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    stored: int = 0
    reused: int = 0
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    under_way: int = 0
    concurrency: int = 0
    refused: int = 0
    paused_s: float = 0.0

    def add(self, result: MapResult[Any, Any]) -> None:
        """Counts a result of this run."""
        self.done += 1
        if result.error is not None:
            self.failed[result.error.code] += 1
        self.usage += result.usage
        if result.cost is not None:
            self.cost = (self.cost or 0.0) + result.cost
