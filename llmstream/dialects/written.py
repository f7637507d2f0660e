"""What the messages of a conversation became on a wire, so that its next request encodes only the new ones.

A conversation goes out again with each step of an agent. Without this the last of 300 steps would encode
600 messages, and an image of several megabytes 300 times.

A dialect encodes a segment of a conversation with state carried over from earlier messages: ids in use,
blocks of the system prompt. `Written` caches the JSON of the segments, and the carried state at a few
positions between them. The next request starts at the last of these positions before which nothing changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, cast

import msgspec

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message, Role, noted, unchanged
from llmstream.events import Warning

if TYPE_CHECKING:
    from llmstream.dialects.requests import RequestWarnings

__all__ = ["Carry", "Written", "in_turns", "write"]

# Of JSON that is remembered of a conversation: more than vendors accept. What follows is encoded again.
_MAX_BYTES: Final = 64 * 1024 * 1024

# Cached positions besides the first: a step whose end changes, for example because a cache mark moves, needs
# two.
_PLACES: Final = 4


class Carry(msgspec.Struct):
    """What a message may depend on, of those before it. A dialect adds fields with a `copy` method.

    begun:      something precedes the segment
    unfinished: what follows may change the segment, so the next request encodes it again
    """

    begun: bool = False
    unfinished: bool = False

    def copy(self) -> Self:
        """The same, to be changed by another segment."""
        made: Self = self.__copy__()  # type: ignore[attr-defined]  # every Struct has it
        for name, value in zip(self.__struct_fields__, msgspec.structs.astuple(self), strict=True):
            if hasattr(value, "copy"):
                setattr(made, name, value.copy())
        return made


C = TypeVar("C", bound=Carry)
EncodeSegment = Callable[[Sequence[Message], C], list[Any] | None]


def write(
    messages: Sequence[Message],
    carry: C,
    encode: EncodeSegment[C],
    *wire: object,
    warnings: RequestWarnings,
    stays: Callable[[Any], bool] | None = None,
) -> tuple[list[Any], C]:
    """Encodes a conversation; if it has a `Written`, only the messages that are new in it.

    carry:    at the beginning of the conversation
    encode:   returns the wire's messages for a segment, and changes what is carried; None if the segment
              cannot be encoded apart from those before it. It adds to `warnings`
    wire:     all else that the form of a message depends on, compared by value
    warnings: of the request; those about earlier messages are added again
    stays:    whether one of the wire's messages has to stay an object, because its request may change it

    returns:  the wire's messages, as objects or as their JSON; what is carried at the end
    """
    # Messages of a conversation have one, from its second request on. Not isinstance with a protocol: typing
    # looks at its members each time, half of a short request's time.
    written: Written | None = getattr(messages, "written", None)
    if written is None:
        made = encode(messages, carry)
        assert made is not None  # no message before it
        return made, carry
    return written.write(messages, carry, encode, wire, warnings, stays or _none_stays)


def in_turns(turns: list[dict[str, Any]], carry: Carry, answer: str = "assistant") -> list[Any] | None:
    """Returns a segment for wires that join neighbours of one role; None if it would join the one before.

    answer: role of the model
    """
    if turns:
        if carry.begun and turns[0]["role"] != answer:
            return None
        # The next answer would join this one.
        carry.unfinished = turns[-1]["role"] == answer
        carry.begun = True
    return turns


class _Place(NamedTuple):
    """A place between two messages where encoding can start: how much there is before it."""

    messages: int
    items: int
    warnings: int
    values: int
    size: int
    carry: Carry


class Written:
    """What one conversation's messages became. It holds no more than the last request had.

    A message is known again by its content, compared in C and mostly by identity. Metadata and whatever
    else a caller may change in place is compared with a copy.
    """

    def __init__(self) -> None:
        self._wire: tuple[object, ...] = ()
        self._known: list[Message] = []
        self._items: list[Any] = []
        self._objects: list[int] = []  # indexes of the items that stay objects
        self._warnings: list[Warning] = []
        self._places: list[_Place] = []
        self._full: int | None = None  # number of messages that are too much
        # What may change in place: the value, its copy, and the index of its message.
        self._values: list[object] = []
        self._copies: list[object] = []
        self._owners: list[int] = []

    def write(
        self,
        messages: Sequence[Message],
        carry: C,
        encode: EncodeSegment[C],
        wire: tuple[object, ...],
        warnings: RequestWarnings,
        stays: Callable[[Any], bool],
    ) -> tuple[list[Any], C]:
        """As the function `write`."""
        known = self._unchanged(messages) if wire == self._wire else 0
        self._wire = wire
        while self._places and not _can_start(messages, self._places[-1].messages, known):
            self._places.pop()
            self._full = None
        before, start = len(warnings), _Place(0, 0, 0, 0, 0, carry)
        ends: list[int] = []
        if self._full is None or len(messages) <= self._full:
            self._full = None
            ends = _ends(messages, self._places[-1].messages if self._places else 0)
        rest: list[Any] = []
        for end in dict.fromkeys((*ends, len(messages))):
            while True:
                place = self._places[-1] if self._places else start
                self._forget_after(place)
                warnings.cut(before)
                warnings.extend(self._warnings)
                carry = cast(C, place.carry.copy())
                made = encode(messages[place.messages : end], carry)
                if made is not None:
                    break
                self._places.pop()  # these messages are encoded together with those before
            rest = made
            if end in ends and not carry.unfinished:
                about = warnings[before + place.warnings :]
                if self._remember(place, messages[place.messages : end], made, about, carry, stays):
                    rest = []
        del self._places[1:-_PLACES]
        items = self._items + rest
        for index in self._objects:
            items[index] = _fresh(items[index])
        return items, carry

    def _unchanged(self, messages: Sequence[Message]) -> int:
        """How many messages at the beginning are as they were."""
        known = unchanged(self._known, messages)
        if self._values != self._copies:
            known = min(known, self._owners[unchanged(self._values, self._copies)])
        return known

    def _forget_after(self, place: _Place) -> None:
        del self._known[place.messages :], self._items[place.items :], self._warnings[place.warnings :]
        del self._values[place.values :], self._copies[place.values :], self._owners[place.values :]
        while self._objects and self._objects[-1] >= place.items:
            self._objects.pop()

    def _remember(
        self,
        place: _Place,
        messages: Sequence[Message],
        made: list[Any],
        warnings: list[Warning],
        carry: Carry,
        stays: Callable[[Any], bool],
    ) -> bool:
        """Adds a segment after a position; False if it cannot be recognized later, or is too large."""
        values = [_mutable(message) for message in messages]
        try:
            copies = [None if found is None else list(map(_copied, found)) for found in values]
            encoded = list(map(_encode, made))
        except (TypeError, ValueError, RecursionError, OverflowError):
            return False  # encoding the request reports the invalid value
        size = place.size + sum(map(len, encoded))
        if size > _MAX_BYTES:
            self._full = place.messages + len(messages)
        if size > _MAX_BYTES or None in copies:
            return False
        for item, data in zip(made, encoded, strict=True):
            kept = stays(item)
            if kept:
                self._objects.append(len(self._items))
            self._items.append(item if kept else msgspec.Raw(data))
        self._warnings += warnings
        for number, (found, copied) in enumerate(zip(values, copies, strict=True), len(self._known)):
            self._values += found or ()
            self._copies += copied or ()
            self._owners += [number] * len(found or ())
        self._known += noted(messages)
        counts = (len(self._known), len(self._items), len(self._warnings), len(self._values))
        self._places.append(_Place(*counts, size, carry))
        return True


_encode: Final = msgspec.json.Encoder().encode
_INPUT_ROLES: Final = (Role.USER, Role.TOOL)


# Where a conversation may be cut: an answer follows what it answers, every call before has its result, and no
# later result belongs to an earlier call. So no message after the cut changes the encoding before it.


def _can_start(messages: Sequence[Message], place: int, known: int) -> bool:
    """Whether the messages after a place can be encoded separately."""
    if place > known:
        return False
    called: set[tuple[str, bool]] = set()
    for message in messages[place:]:
        for part in message.parts:
            if isinstance(part, ToolCall):
                called.add((part.id, part.provider_executed))
            elif isinstance(part, ToolResult) and _call_of(part) not in called:
                return False
    return place == len(messages) or messages[place].role == Role.ASSISTANT


def _ends(messages: Sequence[Message], start: int) -> list[int]:
    """Where to cut after a position: once early, so that part of a changed conversation can be reused; before
    the last answer, whose end may change; and at the end.
    """
    found: list[int] = []
    called: set[tuple[str, bool]] = set()
    waiting: set[str] = set()
    for place in range(start, len(messages) + 1):
        last = place == len(messages)
        settled = place > start and not waiting and messages[place - 1].role in _INPUT_ROLES
        if settled and (last or messages[place].role == Role.ASSISTANT):
            found.append(place)
            called = set()
        for part in () if last else messages[place].parts:
            if isinstance(part, ToolCall):
                called.add((part.id, part.provider_executed))
                if not part.provider_executed:
                    waiting.add(part.id)
            elif isinstance(part, ToolResult):
                if not part.provider_executed:
                    waiting.discard(part.tool_call_id)
                if _call_of(part) not in called:
                    found.clear()
    return found[-2:] if start else [*found[:1], *found[1:][-2:]]


def _call_of(result: ToolResult) -> tuple[str, bool]:
    """The id of its call, and who ran that: both may use one id."""
    return result.tool_call_id, result.provider_executed


# What a caller may change in place, and its copy.

_UNCHANGING: Final = (str, bytes, int, float, NoneType)
_FIELDS: dict[type, Callable[[Any], tuple[Any, ...]] | None] = {}


def _mutable(message: Message) -> list[object] | None:
    """Returns the values of a message that can change in place; None if they are not known."""
    found: list[object] = [] if message.metadata is None else [message.metadata]
    known = type(message.parts) is tuple and all(_collect(part, found) for part in message.parts)
    return found if known else None


def _collect(part: object, found: list[object]) -> bool:
    """Adds the values of a part that can change; False if it can itself."""
    fields = _FIELDS.get(type(part)) or _fields_of(type(part))
    if fields is None:
        return False
    for value in fields(part):
        if type(value) is tuple:
            if not all(_collect(inner, found) for inner in value):
                return False
        elif not isinstance(value, _UNCHANGING):
            found.append(value)
    return True


def _fields_of(kind: type) -> Callable[[Any], tuple[Any, ...]] | None:
    config = getattr(kind, "__struct_config__", None)
    if config is None or not config.frozen:
        return None
    names: tuple[str, ...] = kind.__struct_fields__  # type: ignore[attr-defined]  # it is a Struct
    one = attrgetter(*names)
    _FIELDS[kind] = found = one if len(names) > 1 else lambda part: (one(part),)
    return found


def _copied(value: Any) -> Any:
    """A copy that equals the value as long as nothing in it changes.

    raises: TypeError for values that are no JSON
    """
    if isinstance(value, _UNCHANGING):
        return value
    if isinstance(value, dict):
        return {name: _copied(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(map(_copied, value)) if type(value) in (list, tuple) else _unknown(value)
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    return _unknown(value)


def _unknown(value: object) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON")


def _fresh(value: Any) -> Any:
    """A copy of one of the wire's messages, down to its objects and lists."""
    if type(value) is dict:
        return {name: _fresh(inner) for name, inner in value.items()}
    return list(map(_fresh, value)) if type(value) is list else value


def _none_stays(item: object) -> bool:
    return False
