"""The order that Bedrock demands of turns, and what has to be added for it.

The user begins, roles alternate, results of tools stand first in the turn after their calls,
every call has one, and a document stands beside a text.
source: answers of the API that refuse everything else
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from llmstream.dialects.bedrock_converse.blocks import SERVER_TOOL
from llmstream.dialects.bedrock_converse.models import Traits

__all__ = ["Group", "Turn", "ordered"]

_BEGINNING: Final = "(The conversation begins with your words.)"
_BESIDE_DOCUMENT: Final = "(See the document.)"
_NOTED: Final = "(I have read the results.)"
_EMPTY: Final = "(no output)"
_NO_RESULT: Final = "There is no result: the call was not run."


@dataclasses.dataclass(slots=True)
class Group:
    """Blocks that stay together: a block and the cache point after it."""

    blocks: list[dict[str, Any]]

    @property
    def head(self) -> dict[str, Any]:
        """The block that says what the group is."""
        return self.blocks[0]


@dataclasses.dataclass(slots=True)
class Turn:
    """What one side says before the other answers."""

    role: str
    groups: list[Group] = dataclasses.field(default_factory=list)


def ordered(turns: list[Turn], *, can: Traits, warn: Callable[[str], None]) -> list[dict[str, Any]]:
    """The turns as the body has them; `warn` takes what had to be changed."""
    turns = _joined(turns)
    if turns and turns[0].role == "assistant":
        warn("a user's turn was put before the first one: the API wants the user to begin")
        turns.insert(0, Turn("user", [Group([{"text": _BEGINNING}])]))
    _answer_calls(turns, warn)
    for turn in turns:
        turn.groups.sort(key=lambda group: _rank(turn.role, group))
        _stand_by_documents(turn, warn)
    if can.lone_results:
        turns = _with_lone_results(turns, warn)
    if turns and turns[-1].role == "assistant":
        _trim(turns[-1])
    return [
        {"role": turn.role, "content": [block for group in turn.groups for block in group.blocks]}
        for turn in turns
    ]


def _joined(turns: list[Turn]) -> list[Turn]:
    """Turns with content, neighbours of one role as one."""
    out: list[Turn] = []
    for turn in turns:
        if not turn.groups:
            continue
        if out and out[-1].role == turn.role:
            out[-1].groups.extend(turn.groups)
        else:
            out.append(turn)
    return out


def _answer_calls(turns: list[Turn], warn: Callable[[str], None]) -> None:
    """Gives each call its one result, and turns results without a call into text."""
    waiting: dict[str, None] = {}
    for number, turn in enumerate(list(turns)):
        if turn.role == "assistant":
            waiting = {
                group.head["toolUse"]["toolUseId"]: None
                for group in turn.groups
                if "toolUse" in group.head and group.head["toolUse"].get("type") != SERVER_TOOL
            }
            if waiting and number + 1 == len(turns):
                turns.append(Turn("user", _invented(waiting, warn)))
            continue
        for group in turn.groups:
            result = group.head.get("toolResult")
            if result is None:
                continue
            if result["toolUseId"] in waiting:
                del waiting[result["toolUseId"]]
            else:
                warn(f"the result of {result['toolUseId']!r}, which answers no call, was sent as text")
                group.blocks[:1] = [_as_text(p) for p in result["content"] or [{"text": _EMPTY}]]
        turn.groups.extend(_invented(waiting, warn))
        waiting = {}


def _invented(calls: Iterable[str], warn: Callable[[str], None]) -> list[Group]:
    groups = []
    for call_id in calls:
        warn(f"the call {call_id!r} got a result that says it was not run: the API wants one for each")
        result = {"toolUseId": call_id, "content": [{"text": _NO_RESULT}]}
        groups.append(Group([{"toolResult": result}]))
    return groups


def _as_text(piece: dict[str, Any]) -> dict[str, Any]:
    """A piece of a result as a block of a turn; only JSON has none of its own."""
    return {"text": msgspec.json.encode(piece["json"]).decode()} if "json" in piece else piece


def _rank(role: str, group: Group) -> int:
    """In a user's turn results stand first, in an assistant's turn the calls stand last."""
    if role == "user":
        return 0 if "toolResult" in group.head else 1
    tool_use = group.head.get("toolUse")
    return 1 if tool_use is not None and tool_use.get("type") != SERVER_TOOL else 0


def _stand_by_documents(turn: Turn, warn: Callable[[str], None]) -> None:
    heads = [group.head for group in turn.groups]
    lacks_text = any("document" in head for head in heads) and not any("text" in head for head in heads)
    if turn.role == "user" and lacks_text:
        warn("a text was put beside a document: the API wants one")
        turn.groups.append(Group([{"text": _BESIDE_DOCUMENT}]))


def _with_lone_results(turns: list[Turn], warn: Callable[[str], None]) -> list[Turn]:
    """Splits turns that hold results and more; an assistant's turn goes between the halves."""
    out: list[Turn] = []
    for turn in turns:
        results = [group for group in turn.groups if "toolResult" in group.head]
        if turn.role == "user" and 0 < len(results) < len(turn.groups):
            warn("an assistant's turn was put after a tool's result: this model wants one there")
            rest = [group for group in turn.groups if "toolResult" not in group.head]
            out += [Turn("user", results), Turn("assistant", [Group([{"text": _NOTED}])]), Turn("user", rest)]
        else:
            out.append(turn)
    return out


def _trim(turn: Turn) -> None:
    """The beginning of an answer may not end in white space."""
    last = turn.groups[-1].head
    if "text" in last:
        last["text"] = last["text"].rstrip()
