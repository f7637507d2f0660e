"""Writes messages as the system prompt and the turns of Converse: content, order, call ids."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.bedrock_converse.content import DocumentNames, encode_media, encode_result
from llmstream.dialects.bedrock_converse.quirks import Traits
from llmstream.dialects.bedrock_converse.wire import KEY, SERVER_TOOL
from llmstream.dialects.history_parts import role_of, system_text
from llmstream.dialects.json_text import object_text
from llmstream.dialects.requests import RequestWarnings
from llmstream.dialects.written import Carry, in_turns, write
from llmstream.errors import InvalidRequest, Unsupported

__all__ = ["Conversation"]


# Order of turns, and the text that has to be added for it.
#
# The user begins, roles alternate, tool results come first in the turn after their calls, every call has
# a result, and a document needs a text in its turn.
# source: error responses of the API to everything else

_BEGINNING: Final = "(The conversation begins with your words.)"
_BESIDE_DOCUMENT: Final = "(See the document.)"
_ACKNOWLEDGED: Final = "(I have read the results.)"
_EMPTY: Final = "(no output)"
_NO_RESULT: Final = "There is no result: the call was not run."


@dataclasses.dataclass(slots=True)
class Group:
    """A block and the cache point after it, which are moved together."""

    blocks: list[dict[str, Any]]

    @property
    def head(self) -> dict[str, Any]:
        """The block without the cache point."""
        return self.blocks[0]


@dataclasses.dataclass(slots=True)
class Turn:
    """Blocks of one role, as groups."""

    role: str
    groups: list[Group] = dataclasses.field(default_factory=list)


def ordered(
    turns: list[Turn], *, begun: bool, can: Traits, warn: Callable[[str], None]
) -> list[dict[str, Any]]:
    """Returns the turns of the body in a valid order; `warn` is called for each change.

    begun: other turns precede them
    """
    turns = _joined(turns)
    if turns and turns[0].role == "assistant" and not begun:
        warn("a user turn was added at the beginning: the API requires the user to begin")
        turns.insert(0, Turn("user", [Group([{"text": _BEGINNING}])]))
    _answer_calls(turns, warn)
    for turn in turns:
        turn.groups.sort(key=lambda group: _rank(turn.role, group))
        _add_text_to_documents(turn, warn)
    if can.lone_results:
        turns = _separate_results(turns, warn)
    if turns and turns[-1].role == "assistant":
        _trim(turns[-1])
    return [
        {"role": turn.role, "content": [block for group in turn.groups for block in group.blocks]}
        for turn in turns
    ]


def _joined(turns: list[Turn]) -> list[Turn]:
    """Joins adjacent turns of one role, without empty turns."""
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
    """Gives each call exactly one result, and converts results without a call to text."""
    waiting: dict[str, None] = {}
    for number, turn in enumerate(list(turns)):
        if turn.role == "assistant":
            waiting = {
                group.head["toolUse"]["toolUseId"]: None
                for group in turn.groups
                if "toolUse" in group.head and group.head["toolUse"].get("type") != SERVER_TOOL
            }
            if waiting and number + 1 == len(turns):
                # The API requires the results even if nothing else follows.
                turns.append(Turn("user", _placeholder_results(waiting, warn)))
            continue
        for group in turn.groups:
            result = group.head.get("toolResult")
            if result is None:
                continue
            if result["toolUseId"] in waiting:
                del waiting[result["toolUseId"]]
            else:
                warn(f"the result {result['toolUseId']!r}, which has no call, was sent as text")
                # Its content may still matter to the model; as a result it would be rejected.
                group.blocks[:1] = [_as_text(p) for p in result["content"] or [{"text": _EMPTY}]]
        turn.groups.extend(_placeholder_results(waiting, warn))
        waiting = {}


def _placeholder_results(calls: Iterable[str], warn: Callable[[str], None]) -> list[Group]:
    groups = []
    for call_id in calls:
        warn(f"the call {call_id!r} got a placeholder result: the API requires a result for each call")
        result = {"toolUseId": call_id, "content": [{"text": _NO_RESULT}]}
        groups.append(Group([{"toolResult": result}]))
    return groups


def _as_text(piece: dict[str, Any]) -> dict[str, Any]:
    """Converts a piece of a result to a block of a turn; only JSON has to become text."""
    return {"text": msgspec.json.encode(piece["json"]).decode()} if "json" in piece else piece


def _rank(role: str, group: Group) -> int:
    # In a user turn results come first, in an assistant turn calls come last: Claude rejects results after
    # text, and text after calls.
    if role == "user":
        return 0 if "toolResult" in group.head else 1
    tool_use = group.head.get("toolUse")
    return 1 if tool_use is not None and tool_use.get("type") != SERVER_TOOL else 0


def _add_text_to_documents(turn: Turn, warn: Callable[[str], None]) -> None:
    heads = [group.head for group in turn.groups]
    lacks_text = any("document" in head for head in heads) and not any("text" in head for head in heads)
    if turn.role == "user" and lacks_text:
        warn("a text was added to a turn with a document: the API requires one")
        turn.groups.append(Group([{"text": _BESIDE_DOCUMENT}]))


def _separate_results(turns: list[Turn], warn: Callable[[str], None]) -> list[Turn]:
    """Splits turns with results and other content, with an assistant turn between the halves."""
    out: list[Turn] = []
    for turn in turns:
        results = [group for group in turn.groups if "toolResult" in group.head]
        if turn.role == "user" and 0 < len(results) < len(turn.groups):
            warn("an assistant turn was added after tool results: this model requires one there")
            rest = [group for group in turn.groups if "toolResult" not in group.head]
            out += [
                Turn("user", results),
                Turn("assistant", [Group([{"text": _ACKNOWLEDGED}])]),
                Turn("user", rest),
            ]
        else:
            out.append(turn)
    return out


def _trim(turn: Turn) -> None:
    # The API rejects a prefix of a response that ends in white space.
    last = turn.groups[-1].head
    if "text" in last:
        last["text"] = last["text"].rstrip()


# Call ids in the characters that Bedrock and the model allow.

_FITTING: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_SHORT: Final = re.compile(r"[a-zA-Z0-9]{9}")
_FOREIGN: Final = re.compile(r"[^a-zA-Z0-9_.:-]")

# Of `toolUseId`, from the API reference.
_MAX_CHARS: Final = 64


class CallIds:
    """Maps any vendor's ids, in the order of the conversation: a call, then its result.

    Some servers use an id again in a later turn. Each call gets a distinct id; a result gets that of the
    first call with its id that has no result yet.

    short: the model requires nine letters and digits
    """

    def __init__(self, *, short: bool) -> None:
        self._short = short
        self._waiting: dict[str, deque[str]] = {}
        self._latest: dict[str, str] = {}
        self._taken: set[str] = set()
        self._turns: dict[str, int] = {}

    def of_call(self, call_id: str) -> str:
        """Returns the wire id of the next call."""
        name = self._fitted(call_id)
        while name in self._taken:
            turn = self._turns[call_id] = self._turns.get(call_id, 0) + 1
            name = self._digest(f"{call_id}#{turn}")
        self._taken.add(name)
        self._latest[call_id] = name
        self._waiting.setdefault(call_id, deque()).append(name)
        return name

    def of_result(self, call_id: str) -> str:
        """Returns the wire id for a result; a new one if there is no such call."""
        waiting = self._waiting.get(call_id)
        if not waiting:
            return self._latest.get(call_id) or self._fitted(call_id)
        name = waiting.popleft()
        if not waiting:
            del self._waiting[call_id]
        return name

    def copy(self) -> CallIds:
        """The same ids, to which others may be added."""
        made = CallIds(short=self._short)
        made._waiting = {call_id: names.copy() for call_id, names in self._waiting.items()}
        made._latest, made._taken, made._turns = self._latest.copy(), self._taken.copy(), self._turns.copy()
        return made

    def _fitted(self, call_id: str) -> str:
        if (_SHORT if self._short else _FITTING).fullmatch(call_id):
            return call_id
        return self._digest(call_id)

    def _digest(self, call_id: str) -> str:
        digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
        if self._short:
            # Stable while the conversation grows, or the prompt cache would miss.
            return digest[:9]
        stem = _FOREIGN.sub("_", call_id)[: _MAX_CHARS - 17]
        return f"{stem}-{digest[:16]}" if stem else f"call-{digest[:16]}"


_ROLES: Final = {
    Role.SYSTEM: "system",
    Role.USER: "user",
    Role.TOOL: "user",
    Role.ASSISTANT: "assistant",
}
_NO_NAME: Final = re.compile(r"[^a-zA-Z0-9_-]")


class _Carry(Carry, kw_only=True):
    """What messages depend on, of those before.

    system:     the blocks of the system prompt
    tool_names: names of the called tools, as keys
    ids:        of calls
    documents:  names of documents
    cited:      citations of a document were left out
    """

    ids: CallIds
    system: list[dict[str, Any]] = msgspec.field(default_factory=list)
    tool_names: dict[str, None] = msgspec.field(default_factory=dict)
    documents: DocumentNames = msgspec.field(default_factory=DocumentNames)
    cited: bool = False


class Conversation:
    """Collects blocks by turn.

    system:     the blocks of the system prompt
    messages:   the turns of the body, as objects or as JSON
    tool_names: names of the called tools, as keys
    cited:      citations of a document were left out

    citations: documents may be cited
    """

    def __init__(
        self, *, can: Traits, provider: str, warnings: RequestWarnings, citations: bool = True
    ) -> None:
        self.system: list[dict[str, Any]] = []
        self.messages: list[Any] = []
        self.tool_names: dict[str, None] = {}
        self.cited = False
        self._can = can
        self._provider = provider
        self._citations = citations
        self._warnings = warnings
        self._warn = warnings.note_once
        # Of one segment of the conversation.
        self._carry = _Carry(ids=CallIds(short=can.short_ids))
        self._turns: list[Turn] = []
        self._joins = False

    def read(self, messages: Sequence[Message]) -> None:
        """Adds a complete conversation.

        raises: InvalidRequest for unknown roles and empty conversations, Unsupported for media that
            the API does not support
        """
        wire = (self._can, self._provider, self._citations)
        self.messages, carry = write(
            messages, self._carry, self._segment, *wire, warnings=self._warnings, stays=_is_marked
        )
        # Cache points may be taken out of it.
        self.system, self.tool_names, self.cited = carry.system.copy(), carry.tool_names, carry.cited
        if not self.messages:
            raise InvalidRequest(
                "the conversation is empty: the API requires at least one message with content"
            )

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._turns, self._carry, self._joins = [], carry, False
        for message in messages:
            role = _ROLES[role_of(message)]
            for part in message.parts:
                self._part(role, part)
        made = ordered(self._turns, begun=carry.begun, can=self._can, warn=self._warn)
        if not self._citations and _drop_citations(made):
            carry.cited = True
        return None if self._joins else in_turns(made, carry)

    def _part(self, role: str, part: Part) -> None:
        if role == "system":
            self._system(part)
            return
        blocks = self._blocks(role, part)
        by_vendor = isinstance(part, (ToolCall, ToolResult)) and part.provider_executed
        turn = self._turn("assistant" if by_vendor else role)
        mark = self._cache_point(part)
        if blocks:
            turn.groups.append(Group([*blocks, *mark]))
        elif mark and turn.groups:
            turn.groups[-1].blocks.extend(mark)
        elif mark and self._carry.begun:
            self._joins = True  # it may follow a block before the segment

    def _turn(self, role: str) -> Turn:
        if not self._turns or self._turns[-1].role != role:
            self._turns.append(Turn(role))
        return self._turns[-1]

    def _system(self, part: Part) -> None:
        if isinstance(part, Custom) and part.type.startswith(f"{KEY}."):
            self._carry.system.append({part.type.removeprefix(f"{KEY}."): _metadata_of(part)})
            return
        text = system_text(part, moved=bool(self._turns) or self._carry.begun, warn=self._warn)
        if text:
            self._carry.system.append({"text": text})
            self._carry.system.extend(self._cache_point(part))

    def _blocks(self, role: str, part: Part) -> list[dict[str, Any]]:
        match part:
            case Text():
                return self._text(role, part)
            case Audio() if not self._can.audio:
                raise Unsupported(
                    "this model does not support audio on Bedrock. Send a transcript, or use another model.",
                    provider=self._provider,
                )
            case Image() | Document() | Audio():
                return [encode_media(part, self._carry.documents, provider=self._provider)]
            case Reasoning():
                return self._reasoning(role, part)
            case ToolCall():
                return self._call(part)
            case ToolResult():
                return self._result(part)
            case Custom(type=kind) if kind.startswith(f"{KEY}."):
                return [{kind.removeprefix(f"{KEY}."): _metadata_of(part)}]
            case Source():
                # Covered by the citations of the text, or not meant for the model.
                return []
            case File():
                self._warn(f"a file of type {part.media_type!r} was left out: the API takes no files back")
            case _:
                self._warn(f"a part of kind {part_kind(part)!r} was left out: the API has no block for it")
        return []

    def _text(self, role: str, part: Text) -> list[dict[str, Any]]:
        if not part.text.strip():
            return []
        citations = _metadata_of(part).get("citations")
        if role == "assistant" and citations and self._can.citations:
            return [{"citationsContent": {"content": [{"text": part.text}], "citations": citations}}]
        return [{"text": part.text}]

    def _reasoning(self, role: str, part: Reasoning) -> list[dict[str, Any]]:
        """Sends back signed or encrypted reasoning; signatures of Anthropic's API are valid here as well."""
        extra = _metadata_of(part)
        theirs = (part.metadata or {}).get("anthropic", {}) if self._can.reasoning == "claude" else {}
        signature = extra.get("signature") or theirs.get("signature")
        redacted = extra.get("redacted_data")
        if redacted is None and isinstance(theirs.get("redacted_data"), str):
            redacted = base64.b64encode(theirs["redacted_data"].encode()).decode()
        blocks: list[dict[str, Any]] = []
        if role == "assistant" and signature:
            signed = {"text": part.text, "signature": signature}
            blocks.append({"reasoningContent": {"reasoningText": signed}})
        if role == "assistant" and redacted:
            blocks.append({"reasoningContent": {"redactedContent": redacted}})
        if not blocks and (part.text or part.metadata):
            self._warn("reasoning without a signature was left out: the API requires the signature")
        return blocks

    def _call(self, part: ToolCall) -> list[dict[str, Any]]:
        extra = _metadata_of(part)
        if part.provider_executed and extra.get("type") != SERVER_TOOL:
            self._warn(f"the call {part.id!r}, which another vendor ran, was left out")
            return []
        name = _NO_NAME.sub("_", part.name)[:64] or "tool"
        self._carry.tool_names[name] = None
        block: dict[str, Any] = {"toolUseId": self._carry.ids.of_call(part.id), "name": name}
        block["input"] = object_text(part.arguments, key="input")
        if part.provider_executed:
            block["type"] = SERVER_TOOL
        return [{"toolUse": block}]

    def _result(self, part: ToolResult) -> list[dict[str, Any]]:
        extra = _metadata_of(part)
        block: dict[str, Any] = {"toolUseId": self._carry.ids.of_result(part.tool_call_id)}
        if part.provider_executed:
            if "type" not in extra:
                self._warn(f"the result of {part.tool_call_id!r}, which another vendor ran, was left out")
                return []
            content = part.result if isinstance(part.result, list) else [{"json": part.result}]
            return [{"toolResult": {**block, "content": content, **extra}}]
        block["content"] = encode_result(part, self._carry.documents, provider=self._provider)
        if not self._can.result_status:
            if part.is_error:
                block["content"] = [{"text": "The tool failed:"}, *block["content"]]
        elif part.is_error or extra.get("status") == "success":
            block["status"] = "error" if part.is_error else "success"
        return [{"toolResult": block}]

    def _cache_point(self, part: Part) -> list[dict[str, Any]]:
        """Returns a cache point if the part has one, or Anthropic's cache mark."""
        mark = _metadata_of(part).get("cache_point")
        if mark:
            return [{"cachePoint": {"type": "default", **(mark if isinstance(mark, dict) else {})}}]
        theirs = (getattr(part, "metadata", None) or {}).get("anthropic", {}).get("cache_control")
        if not isinstance(theirs, dict) or not self._can.caching:
            return []
        ttl = {"ttl": theirs["ttl"]} if theirs.get("ttl") else {}
        return [{"cachePoint": {"type": "default", **ttl}}]


def _metadata_of(part: Any) -> dict[str, Any]:
    return dict((getattr(part, "metadata", None) or {}).get(KEY, {}))


def _is_marked(turn: dict[str, Any]) -> bool:
    """Whether a turn has a cache point, which its request may remove."""
    return any("cachePoint" in block for block in turn["content"])


def _drop_citations(turns: list[dict[str, Any]]) -> bool:
    """Removes `citations` from the documents. Returns whether one had them."""
    found = False
    for block in (block for turn in turns for block in turn["content"] if "document" in block):
        found = block["document"].pop("citations", None) is not None or found
    return found
