"""Messages in the form of Vercel's AI SDK, `UIMessage`: what `useChat` shows in a browser and sends.

    {"id": "1", "role": "assistant", "parts": [{"type": "text", "text": "Hi"}]}

One assistant message of this form is a complete turn: a call and its result are one part, and `step-start` is
the first part of each response. We have a message for each response and one for the results of its calls.

Fields and kinds of parts that we have no place for are carried, so that a newer page loses nothing: fields
in `metadata["llmstream"]["ui"]` of a part or message, parts as `UIPart`.

Calls of sub-agents that a page has shown as calls of its own, because a person was asked about them, are in
no message of the conversation, which belongs to the agent above. So they are in the metadata of the call that
runs the sub-agent, under our own key, which no vendor is sent:

    {"llmstream": {"calls": [{"id": "c/d", "name": "delete", "arguments": "{}", "result": "Gone."}]}}

source: "UIMessage" in the reference of AI SDK UI, versions 5 to 7, read 2026-11
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    CANCELLED,
    OWN_KEY,
    Audio,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Outcome,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UIPart,
    data_url,
    outcome_mark,
    outcome_of,
    own_values,
    read_data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest
from llmstream.first_use import prepared
from llmstream.unique_ids import StepIds, UniqueIds

__all__ = [
    "CARDS",
    "Card",
    "cards_of",
    "from_ui",
    "json_value",
    "output_value",
    "to_ui",
    "with_cards",
]


# Calls of sub-agents.

CARDS: Final = "calls"
"""The key of the cards in our own metadata."""

# A card is for people; the model of the sub-agent has read the complete result.
_MAX_CHARS: Final = 50_000


class Card(msgspec.Struct, frozen=True, omit_defaults=True):
    """A call of a sub-agent.

    id:     as the page has it
    result: its JSON value or text; UNSET while there is none
    """

    id: str
    name: str
    arguments: str
    result: Any = msgspec.UNSET
    is_error: bool = False
    outcome: Outcome | None = None

    def ended(self, result: Any, is_error: bool, outcome: Outcome | None) -> Card:
        """The card with its result; a long one is cut."""
        text = result if isinstance(result, str) else msgspec.json.encode(result).decode()
        if len(text) > _MAX_CHARS:
            result = f"{text[:_MAX_CHARS]}\n[cut: the first {_MAX_CHARS} of {len(text)} characters]"
        return msgspec.structs.replace(self, result=result, is_error=is_error, outcome=outcome)


def cards_of(message: Message) -> list[Card]:
    """The calls of sub-agents that calls of a message have run."""
    found: list[Card] = []
    for call in message.tool_calls:
        own = own_values(call.metadata)
        if CARDS in own:
            try:  # they may come from a page
                found += msgspec.convert(own[CARDS], prepared(list[Card]))
            except msgspec.ValidationError:
                continue
    return found


def with_cards(message: Message, cards: Iterable[Card]) -> Message:
    """The message with the cards of its calls; one that is there is replaced."""
    made = {card.id: card for card in (*cards_of(message), *cards)}
    if not made:
        return message
    # A person sees them as one list: they are with the first call.
    parts, left = list(message.parts), [msgspec.to_builtins(card) for card in made.values()]
    for place, part in enumerate(parts):
        if isinstance(part, ToolCall):
            metadata = dict(part.metadata or {})
            own = {name: value for name, value in own_values(metadata).items() if name != CARDS}
            metadata[OWN_KEY] = {**own, CARDS: left} if left else own
            if not metadata[OWN_KEY]:
                del metadata[OWN_KEY]
            parts[place] = msgspec.structs.replace(part, metadata=metadata or None)
            left = []
    return msgspec.structs.replace(message, parts=tuple(parts))


# Messages.

# The key of a message's id in our metadata.
_ID: Final = "id"

# The key of carried fields in our metadata.
_CARRIED: Final = "ui"

_DENIED: Final = "The call was denied. It has not run."
_TOOL: Final = "tool-"
_DYNAMIC: Final = "dynamic-tool"

# Fields that have a place in our messages; all others are carried. `state` follows from the rest.
_FIELDS: Final = {
    "text": {"type", "text", "state", "providerMetadata"},
    "reasoning": {"type", "text", "state", "providerMetadata"},
    "file": {"type", "mediaType", "url", "filename", "providerMetadata"},
    "source-url": {"type", "sourceId", "url", "title", "providerMetadata"},
    "source-document": {"type", "sourceId", "mediaType", "title", "filename", "providerMetadata"},
    _DYNAMIC: {
        *("type", "toolName", "toolCallId", "state", "input", "rawInput", "output", "errorText"),
        *("preliminary", "providerExecuted", "callProviderMetadata", "resultProviderMetadata"),
    },
}

# States of a part whose call has a result.
_RESULTS: Final = frozenset({"output-available", "output-error", "output-denied"})


def from_ui(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """Converts a list of UI messages to a conversation.

    The id of a UI message is in the metadata of its first message, as "id". Calls whose input was not
    complete are left out.

    raises: InvalidRequest if one of them is not a UI message
    """
    found: list[Message] = []
    for place, given in enumerate(messages):
        where = f"message {place}"
        parts = given.get("parts") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or not isinstance(parts, list | tuple):
            raise InvalidRequest(f'{where} is no {{"role": ..., "parts": [...]}}')
        read = list(_read(given.get("role"), parts, where))
        if read:
            read[0].metadata = _message_metadata(given)
        found += read
    return found


def _message_metadata(given: Mapping[str, Any]) -> dict[str, Any] | None:
    metadata = given.get("metadata")
    found = {**metadata} if isinstance(metadata, Mapping) else {}
    found.pop(OWN_KEY, None)  # only ours: a page must not write it
    if isinstance(given.get("id"), str) and given["id"]:
        found[_ID] = given["id"]
    carried = _others(given, {"id", "role", "parts", "metadata"})
    return (found | ({OWN_KEY: {_CARRIED: carried}} if carried else {})) or None


def _read(role: object, parts: Iterable[Any], where: str) -> Iterator[Message]:
    if role == Role.ASSISTANT:
        yield from _read_turn(parts, where)
    elif role in (Role.USER, Role.SYSTEM):
        given = [_part(part, f"{where}, part {i}", generated=False) for i, part in enumerate(parts)]
        yield Message("", str(role), tuple([part for part in given if part is not None]))
    else:
        raise InvalidRequest(f"{where} has the role {role!r}; it is system, user or assistant")


def _read_turn(parts: Iterable[Any], where: str) -> Iterator[Message]:
    """One message for each response, each followed by the results of its calls."""
    response: list[Part] = []
    results: list[ToolResult] = []
    called = False
    for i, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, Mapping) else None
        is_call = isinstance(kind, str) and (kind == _DYNAMIC or kind.startswith(_TOOL))
        # `step-start` may be missing: what follows a call is the next response.
        if kind == "step-start" or (called and not is_call and not _is_data(kind)):
            yield from _step(response, results)
            response, results, called = [], [], False
        if is_call:
            call, result = _call(part, f"{where}, part {i}")
            if call is not None:
                response.append(call)
                # The vendor's calls and results are within one response.
                called = called or not call.provider_executed
            if result is not None:
                (response if result.provider_executed else results).append(result)
        elif (read := _part(part, f"{where}, part {i}", generated=True)) is not None:
            response.append(read)
    yield from _step(response, results)


def _step(response: list[Part], results: list[ToolResult]) -> Iterator[Message]:
    if response:
        yield Message("", Role.ASSISTANT, tuple(response))
    if results:
        yield Message.tool(results)


def _is_data(kind: object) -> bool:
    return isinstance(kind, str) and kind.startswith("data-")


def _call(part: Mapping[str, Any], where: str) -> tuple[ToolCall | None, ToolResult | None]:
    dynamic = part["type"] == _DYNAMIC
    name = part.get("toolName") if dynamic else part["type"][len(_TOOL) :]
    call_id, state = part.get("toolCallId"), str(part.get("state"))
    if not (isinstance(name, str) and name and isinstance(call_id, str) and call_id):
        raise InvalidRequest(f'{where}: a call must have a name and a "toolCallId"')
    # Its input is not complete, so it cannot be sent to a vendor.
    if state == "input-streaming":
        return None, None
    ran = part.get("providerExecuted") is True
    # The page has an input that is no JSON as `rawInput`.
    given = part.get("input", part.get("rawInput"))
    carried = _others(part, _FIELDS[_DYNAMIC]) | ({"dynamic": True} if dynamic else {})
    metadata = _with_carried(part.get("callProviderMetadata"), carried)
    call = ToolCall(call_id, name, _text(given) if given is not None else "", ran, metadata)
    # A preliminary output is progress, and no result.
    if state not in _RESULTS or (state == "output-available" and part.get("preliminary") is True):
        return call, None
    return call, _result(part, call)


def _result(part: Mapping[str, Any], call: ToolCall) -> ToolResult:
    metadata = _with_carried(part.get("resultProviderMetadata"), {})
    ran = call.provider_executed
    match part.get("state"):
        case "output-available" if ran:
            return ToolResult(
                call.id,
                name=call.name,
                result=part.get("output"),
                provider_executed=True,
                metadata=metadata,
            )
        case "output-available":
            return ToolResult(call.id, _text(part.get("output")), name=call.name, metadata=metadata)
        case "output-denied":
            marked = {**(metadata or {}), **outcome_mark("denied")}
            return ToolResult(call.id, _DENIED, True, call.name, provider_executed=ran, metadata=marked)
    text = str(part.get("errorText") or "")
    return ToolResult(call.id, text, True, call.name, provider_executed=ran, metadata=metadata)


def _part(part: Any, where: str, *, generated: bool) -> Part | None:
    """Converts a part; None for `step-start`.

    generated: by the model
    """
    if not isinstance(part, Mapping) or not isinstance(kind := part.get("type"), str):
        raise InvalidRequest(f"{where} is not a dict with a type")
    metadata = _with_carried(part.get("providerMetadata"), _others(part, _FIELDS.get(kind, ())))
    match kind:
        case "step-start":
            return None
        case "text" | "reasoning" if isinstance(part.get("text"), str):
            return (Text if kind == "text" else Reasoning)(part["text"], metadata)
        case "file" if isinstance(part.get("url"), str):
            return _file(part, where, metadata, generated=generated)
        case "source-url" | "source-document":
            names = ("sourceId", "url", "title", "mediaType", "filename")
            source_id, url, title, media_type, filename = [str(part.get(name) or "") for name in names]
            kind = kind.removeprefix("source-")
            return Source(kind, source_id, url, title, media_type, filename, metadata)
    return UIPart(dict(part))


def _file(part: Mapping[str, Any], where: str, metadata: Metadata | None, *, generated: bool) -> Part:
    media_type, url, data = str(part.get("mediaType") or ""), part["url"], b""
    if url.startswith("data:"):
        # The page's own media type takes precedence over that in the data URL.
        found, data = read_data_url(url, where)
        media_type, url = media_type or found, ""
    if generated:
        return File(media_type, url, data, metadata)
    # The media type may be "image" alone.
    match media_type.partition("/")[0]:
        case "image":
            return Image(url, data, media_type, metadata)
        case "audio":
            return Audio(url, data, media_type, metadata)
    return Document(url, data, media_type, str(part.get("filename") or ""), metadata)


# Our messages as UI messages.


def to_ui(
    messages: Iterable[Message], approvals: Mapping[str, str] = {}, waiting: Mapping[str, str] = {}
) -> list[dict[str, Any]]:
    """Converts a conversation to a list of UI messages, one for each turn.

    The id is the one in the metadata, else "message-0" and so on; a further message with the id of an earlier
    one gets a number: "1.2". An assistant message with another id begins another UI message. A call without a
    result has the state "input-available". Images and files of a tool's result have no place in the form and
    are left out. Some servers repeat the ids of calls; a page has one part for each, so a repeated one gets a
    number, as in the events of a run: "1/call_0".

    approvals: ids of approvals, by the id of the call that waits for it
    waiting:   ids that the page has of calls that wait, by their own
    raises:    InvalidRequest for a role or a part that the form does not have
    """
    found: list[dict[str, Any]] = []
    open_calls: dict[str, dict[str, Any]] = {}  # of the current turn, by their own id
    ids, step, turn = StepIds(), 0, ""
    names = UniqueIds()
    for message in messages:
        if message.role == Role.TOOL:
            for result in message.tool_results:
                _add_result(result, open_calls)
            continue
        if not found or not _continues(message, found[-1], turn):
            open_calls, ids, step = {}, StepIds(), 0
            begun = _begun(message, f"message-{len(found)}")
            turn = begun["id"]
            found.append({**begun, "id": names.fresh(turn)})
        else:
            step += 1
        parts = found[-1]["parts"]
        if message.role == Role.ASSISTANT and message.parts:
            parts.append({"type": "step-start"})
        for part in message.parts:
            if isinstance(part, ToolResult):
                _add_result(part, open_calls)
                continue
            written = _written(part)
            if isinstance(part, ToolCall):
                open_calls[part.id] = written  # its result is added to it
                written["toolCallId"] = ids.shown(part.id, step)
            parts.append(written)
        cards = cards_of(message)
        if cards:
            # A step of their own, as the page has them: see `Writer`.
            parts += [{"type": "step-start"}, *map(_written_card, cards)]
    # The newest of an id: an earlier one has its result.
    for call_id, call in open_calls.items():
        if call["state"] not in _RESULTS:
            call["toolCallId"] = waiting.get(call_id, call["toolCallId"])
            if call_id in approvals:
                call |= {"state": "approval-requested", "approval": {"id": approvals[call_id]}}
    return found


def _continues(message: Message, last: Mapping[str, Any], turn: str) -> bool:
    """Whether a message is a further response of the turn before it, which has this id."""
    # Without an id it belongs to the previous message.
    own_id = (message.metadata or {}).get(_ID, turn)
    assistant = Role.ASSISTANT.value
    return message.role == assistant and last["role"] == assistant and own_id == turn


def _begun(message: Message, default_id: str) -> dict[str, Any]:
    if message.role not in (Role.SYSTEM, Role.USER, Role.ASSISTANT):
        raise InvalidRequest(f"a UI message cannot have the role {message.role!r}")
    given = message.metadata or {}
    # Our own metadata has ids of the vendor, which are not for the page.
    metadata = {key: value for key, value in given.items() if key not in (_ID, OWN_KEY)}
    message_id = given.get(_ID)
    begun: dict[str, Any] = {"id": message_id if isinstance(message_id, str) else default_id}
    begun |= {"role": str(message.role), "parts": [], **_carried(given)}
    return {**begun, "metadata": metadata} if metadata else begun


def _written(part: Part) -> Any:
    extra = _with("providerMetadata", _shown(getattr(part, "metadata", None)))
    extra |= _carried(getattr(part, "metadata", None))
    match part:
        case UIPart():
            return part.part
        case Custom():
            # As `vercel.Writer` writes it.
            return {"type": "data-llmstream-custom", "data": {"kind": part.type, **extra}}
        case Text() | Reasoning():
            return {"type": part.part_kind, "text": part.text, **extra}
        case Image() | Audio() | Document() | File():
            name = part.filename if isinstance(part, Document) else ""
            media_type = part.media_type or "application/octet-stream"
            url = part.url or data_url(part.data, media_type)
            return {"type": "file", "mediaType": media_type, "url": url, **_with("filename", name), **extra}
        case Source("url"):
            title = _with("title", part.title)
            return {"type": "source-url", "sourceId": part.id, "url": part.url, **title, **extra}
        case Source():
            written = {"type": "source-document", "sourceId": part.id, "mediaType": part.media_type}
            return {**written, "title": part.title, **_with("filename", part.filename), **extra}
        case ToolCall():
            return _written_call(part)
    raise InvalidRequest(f"a UI message cannot express a part of type {type(part).__name__}")


def _written_call(part: ToolCall) -> dict[str, Any]:
    carried = _carried(part.metadata)
    dynamic = carried.pop("dynamic", False)
    call: dict[str, Any] = {"type": f"{_TOOL}{part.name}"}
    if dynamic:
        call = {"type": _DYNAMIC, "toolName": part.name}
    call |= {"toolCallId": part.id, "state": "input-available", "input": json_value(part.arguments or "{}")}
    call |= _with("providerExecuted", part.provider_executed)
    call |= _with("callProviderMetadata", _shown(part.metadata))
    if isinstance(approval := carried.get("approval"), Mapping):
        # A result, if there is one, replaces the state.
        call["state"] = "approval-responded" if "approved" in approval else "approval-requested"
    return {**carried, **call}


def _written_card(card: Card) -> dict[str, Any]:
    call = _written_call(ToolCall(card.id, card.name, card.arguments))
    if card.result is msgspec.UNSET:
        return call | {"state": "output-error", "errorText": CANCELLED}
    if card.outcome == "denied":
        return call | {"state": "output-denied", "approval": {"id": card.id, "approved": False}}
    if card.is_error:
        return call | {"state": "output-error", "errorText": _text(card.result)}
    return call | {"state": "output-available", "output": card.result}


def _add_result(result: ToolResult, open_calls: dict[str, dict[str, Any]]) -> None:
    """Completes the part of the call.

    raises: InvalidRequest for a result without a call
    """
    call = open_calls.get(result.tool_call_id)
    if call is None:
        raise InvalidRequest(f"no call {result.tool_call_id!r} comes before its result")
    call |= _with("resultProviderMetadata", _shown(result.metadata))
    if outcome_of(result.metadata) == "denied":
        # The packages refuse a denied call without an approval.
        approval = call.get("approval") or {}
        call |= {
            "state": "output-denied",
            "approval": {"id": result.tool_call_id, **approval, "approved": False},
        }
        return
    if result.is_error:
        call |= {"state": "output-error", "errorText": result.content}
        return
    call |= {"state": "output-available", "output": output_value(result)}


def output_value(result: ToolResult) -> Any:
    """The value of a result: JSON if its content is JSON, text else; of a failure always text."""
    # The vendor requires exactly the data that it sent.
    if result.provider_executed and result.result is not None:
        return result.result
    return result.content if result.is_error else json_value(result.content)


# Metadata: a vendor's is unchanged; our own data has a separate key.


def _others(given: Mapping[str, Any], known: Iterable[str]) -> dict[str, Any]:
    # Of an unknown kind nothing is carried: the part itself is.
    names = set(known)
    return {name: value for name, value in given.items() if names and name not in names}


def _with_carried(given: object, carried: dict[str, Any]) -> Metadata | None:
    found: Metadata = {}
    if isinstance(given, Mapping):
        found = {str(key): dict(value) for key, value in given.items() if isinstance(value, Mapping)}
    if carried:
        found[OWN_KEY] = {**found.get(OWN_KEY, {}), _CARRIED: carried}
    return found or None


def _carried(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    own = (metadata or {}).get(OWN_KEY)
    carried = own.get(_CARRIED) if isinstance(own, Mapping) else None
    return dict(carried) if isinstance(carried, Mapping) else {}


def _shown(metadata: Metadata | None) -> Metadata:
    """The metadata without our outcome, and what the page has in its own place: carried fields, cards."""
    found = dict(metadata or {})
    own = {k: v for k, v in found.pop(OWN_KEY, {}).items() if k not in (_CARRIED, CARDS, "outcome")}
    return {**found, OWN_KEY: own} if own else found


def _with(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


def _text(value: Any) -> str:
    """A value in the model's form: text unchanged, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def json_value(text: str) -> Any:
    """The JSON value of a text; the text itself if it is not JSON."""
    try:
        return msgspec.json.decode(text)
    except (ValueError, RecursionError):
        # Models and web pages may nest it past the stack, or escape half of a surrogate pair.
        return text
