"""Writes a request of the v2 chat API: settings and tools, then the field `messages`.

Thinking is sent back as thinking, a tool plan as tool plan. Each tool result is a message of its own. Its
text files become documents inside it, its images follow all results in a user message. Text documents of
a user message become documents of the request.
"""

from __future__ import annotations

import mimetypes
import re
from collections.abc import Iterable, Sequence
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
    Text,
    ToolCall,
    ToolResult,
    part_kind,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.base import Encoded
from llmstream.dialects.cohere.wire import KEY, stored_citation
from llmstream.dialects.history_parts import own_parts, result_or_failure_text, role_of, without_custom_parts
from llmstream.dialects.media import data_uri
from llmstream.dialects.requests import (
    ANSWER_IN_JSON,
    Field,
    FieldTable,
    RequestWarnings,
    RequestWriter,
    described_schema,
    format_instruction,
    mentions_json,
    merged,
    name_and_description,
)
from llmstream.dialects.written import Carry, write
from llmstream.errors import Unsupported
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec

__all__ = [
    "FIELDS",
    "PATH",
    "MessageWriter",
    "accepts_url",
    "cohere_schema",
    "encode_request",
]

# Cohere's subset of JSON schemas.
#
# `oneOf` becomes `anyOf`, `allOf` becomes one schema; unsupported limits move into the description, where
# the model still reads them. An object needs a required property: if it has none, its first becomes
# required, so that the output also fits the original.
# source: "Structured Outputs", supported and unsupported schema features, in Cohere's documents

_UNKNOWN: Final = frozenset(
    {
        "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems",
        "minLength", "maxLength", "uniqueItems", "contains", "minContains", "maxContains", "minProperties",
        "maxProperties", "patternProperties", "propertyNames", "prefixItems", "not", "if", "then", "else",
        "dependentRequired", "dependentSchemas", "unevaluatedProperties", "unevaluatedItems",
    }
)  # fmt: skip
_FORMATS: Final = frozenset({"date-time", "uuid", "date", "time"})
_MAPS: Final = frozenset({"properties", "$defs", "definitions"})
_LOOKAROUND: Final = re.compile(r"\(\?[=!<]")


def cohere_schema(schema: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns a copy in the subset, and whether some of it moved into a description."""
    moved: list[dict[str, Any]] = []
    return _narrowed(schema, moved), bool(moved)


def _narrowed(schema: Any, moved: list[dict[str, Any]]) -> Any:
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for key, value in _merged(schema, words).items():
        if key in ("anyOf", "oneOf") and isinstance(value, list):
            out["anyOf"] = [*out.get("anyOf", []), *(_narrowed(inner, moved) for inner in value)]
        elif key in _MAPS and isinstance(value, dict):
            out[key] = {name: _narrowed(inner, moved) for name, inner in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = _narrowed(value, moved)
        elif key == "pattern" and isinstance(value, str) and not _LOOKAROUND.search(value):
            # A pattern matches the whole string anyway.
            out[key] = value.removeprefix("^").removesuffix("$")
        elif key in _UNKNOWN or key == "pattern" or (key == "format" and value not in _FORMATS):
            words[key] = value
        elif key != "$schema":
            out[key] = value
    properties = out.get("properties")
    # source: "Structured Outputs": an object needs at least one required property
    if isinstance(properties, dict) and properties and not out.get("required"):
        out["required"] = [next(iter(properties))]
    if words:
        moved.append(words)
        text = msgspec.json.encode(words).decode()
        out["description"] = f"{out['description']} {text}" if out.get("description") else text
    return out


def _merged(schema: dict[str, Any], words: dict[str, Any]) -> dict[str, Any]:
    """Merges the parts of `allOf`; references cannot be merged and move into the description."""
    parts = schema.get("allOf")
    if not isinstance(parts, list):
        return schema
    out = {key: value for key, value in schema.items() if key != "allOf"}
    if parts and not out.keys() & {"properties", "type", "$ref"} and len(parts) == 1:
        return {**parts[0], **out}
    rest = []
    for part in parts:
        if not isinstance(part, dict) or part.keys() & {"$ref", "anyOf", "oneOf", "if", "not"}:
            rest.append(part)
            continue
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict):
                out[key] = {**out.get(key, {}), **value}
            elif key == "required" and isinstance(value, list):
                out[key] = list(dict.fromkeys([*out.get(key, []), *value]))
            else:
                out.setdefault(key, value)
    if rest:
        words["allOf"] = rest
    return out


PATH: Final = "/v2/chat"

# source: Cohere's API reference, v2/chat
FIELDS: Final = FieldTable(
    Field("temperature", "temperature"),
    Field("top_p", "p", low=0.01, high=0.99),
    Field("top_k", "k", low=0, high=500),
    Field("max_output_tokens", "max_tokens"),
    Field("stop", "stop_sequences", most=5),
    Field("seed", "seed"),
    Field("presence_penalty", "presence_penalty", low=0.0, high=1.0),
    Field("frequency_penalty", "frequency_penalty", low=0.0, high=1.0),
)


def encode_request(request: Request, *, provider: str) -> Encoded:
    """Encodes the HTTP request, with warnings about what was left out or changed.

    `provider_options["cohere"]` is merged into the body last; its `documents` are added to those of the
    messages.

    raises: InvalidRequest, Unsupported
    """
    return _Body(RequestWriter(request, provider=provider, key=KEY)).encode()


class _Body:
    """Fills the body of one request."""

    def __init__(self, writer: RequestWriter) -> None:
        self.writer = writer
        self.request = writer.request
        self.warnings = writer.warnings
        self.body: dict[str, Any] = {"model": self.request.model}

    def encode(self) -> Encoded:
        body, options = self.body, self.writer.options
        messages = MessageWriter(provider=self.writer.provider, warnings=self.warnings)
        body["messages"] = messages.write(self.request.messages)
        body["stream"] = True
        body |= self.writer.settings(FIELDS)
        if self.request.settings.parallel_tool_calls is not None:
            details = "the API does not support limiting parallel calls"
            self.warnings.unsupported("parallel_tool_calls", details)
        self.tools()
        self.thinking()
        documents = [*messages.documents, *options.pop("documents", ())]
        if documents:
            body["documents"] = documents
        self.response_format()
        return self.writer.encoded(PATH, merged(body, options), {"accept": "text/event-stream"})

    def tools(self) -> None:
        """Adds tools and tool choice; a tool is forced by sending no other."""
        request = self.request
        tools: list[ToolSpec] = []
        for tool in request.tools:
            if isinstance(tool, ProviderTool):
                self.warnings.unsupported_tool(tool, f"{self.writer.provider} has no tools of its own")
            else:
                tools.append(tool)
        choice = request.tool_choice
        if isinstance(choice, NamedTool):
            # The API can force a call, but not name the tool.
            tools = [tool for tool in tools if tool.name == choice.name]
        if not tools:
            return
        # `strict_tools` is one flag for the request.
        strict = any(tool.strict for tool in tools)
        self.body["tools"] = [self.tool(tool, strict=strict) for tool in tools]
        if strict:
            self.body["strict_tools"] = True
        if strict and not all(tool.strict for tool in tools):
            self.warnings.note("strict applies to all tools of a request; it was switched on")
        if isinstance(choice, NamedTool) or choice == "required":
            self.body["tool_choice"] = "REQUIRED"
        elif choice == "none":
            self.body["tool_choice"] = "NONE"

    def thinking(self) -> None:
        reasoning = self.request.reasoning
        if reasoning is None:
            return
        thinking: dict[str, Any] = {"type": "disabled" if reasoning.effort == "none" else "enabled"}
        if reasoning.budget_tokens is not None and reasoning.effort != "none":
            thinking["token_budget"] = reasoning.budget_tokens
        if reasoning.effort not in (None, "none"):
            self.warnings.unsupported(
                "reasoning.effort", "thinking was switched on; set budget_tokens to limit it"
            )
        self.body["thinking"] = thinking

    def response_format(self) -> None:
        """Adds the output format; with tools or documents it is only described in the prompt."""
        wanted = self.request.response_format
        if wanted is None:
            return
        # source: "Structured Outputs": response_format is rejected together with tools or documents
        if "tools" not in self.body and "documents" not in self.body:
            format_: dict[str, Any] = {"type": "json_object"}
            if wanted.schema is not None:
                format_["json_schema"], moved = cohere_schema(described_schema(wanted))
                if moved:
                    self.warnings.note(
                        "part of the output schema moved into descriptions: the API does not enforce it"
                    )
            # Without the word in the prompt, JSON mode may write white space up to the token limit.
            elif not mentions_json(self.request.messages):
                self.instruct(ANSWER_IN_JSON)
            self.body["response_format"] = format_
            return
        self.instruct(format_instruction(wanted))
        self.warnings.unsupported(
            "output", "not supported together with tools or documents; it was described in the prompt"
        )

    def tool(self, tool: ToolSpec, *, strict: bool) -> dict[str, Any]:
        """Returns a tool; a strict one needs a schema in the subset."""
        schema = tool.input_schema or {"type": "object", "properties": {}}
        if strict:
            schema, moved = cohere_schema(schema)
            if moved:
                details = "moved into descriptions: the API does not enforce it"
                self.warnings.note(f"part of the schema of {tool.name!r} {details}")
        return {"type": "function", "function": {**name_and_description(tool), "parameters": schema}}

    def instruct(self, words: str) -> None:
        self.body["messages"].insert(0, {"role": "system", "content": words})


_TEXTUAL = ("text/", "application/json", "application/xml", "application/yaml")


def accepts_url(part: Image | Audio | Document | File) -> bool:
    """Whether a part can be sent as a URL; also True for documents that are rejected in any form."""
    if not isinstance(part, Document):
        return True
    kind = part.media_type or mimetypes.guess_type(part.url.partition("?")[0])[0] or "text/plain"
    return not kind.startswith(_TEXTUAL)


class _Carry(Carry):
    """What is collected of all messages.

    documents: of the request
    """

    documents: list[dict[str, Any]] = msgspec.field(default_factory=list)


class MessageWriter:
    """Writes the messages of one request.

    warnings: of the request; those about what was left out are added

    documents: of the request
    """

    def __init__(self, *, provider: str, warnings: RequestWarnings) -> None:
        self.documents: list[dict[str, Any]] = []
        self._warnings = warnings
        self._warn = warnings.note_once
        self._provider = provider
        # Of one segment of the conversation.
        self._out: list[dict[str, Any]] = []
        self._result_images: list[tuple[str, Image]] = []

    def write(self, messages: Sequence[Message]) -> list[Any]:
        """Returns the wire's messages, as objects or as their JSON.

        raises: Unsupported if content would be lost, InvalidRequest for an unknown role
        """
        out, carry = write(messages, _Carry(), self._segment, self._provider, warnings=self._warnings)
        self.documents = carry.documents
        return out

    def _segment(self, messages: Sequence[Message], carry: _Carry) -> list[Any] | None:
        self._out, self._result_images, self.documents = [], [], carry.documents
        for message in without_custom_parts(messages, self._warn):
            # The images of results follow all results, or a user message would separate these.
            if message.role != Role.TOOL:
                self._flush_images()
            role = role_of(message)
            if role == Role.SYSTEM:
                self._system(message)
            elif role == Role.USER:
                self._user(message)
            elif role == Role.ASSISTANT:
                self._assistant(message)
            else:
                self._results(message.parts)
        self._flush_images()
        return self._out

    def _system(self, message: Message) -> None:
        for part in message.parts:
            if not isinstance(part, Text):
                raise self._unsupported(part, "a system message")
        self._out.append({"role": "system", "content": _content(message.parts)})

    def _user(self, message: Message) -> None:
        self._results(message.parts)
        self._flush_images()
        rest = [part for part in message.parts if not isinstance(part, ToolResult)]
        content = [block for part in rest if (block := self._block(part)) is not None]
        if content or not message.parts:
            plain = len(content) == 1 and content[0]["type"] == "text"
            self._out.append({"role": "user", "content": content[0]["text"] if plain else content})
        elif rest:
            self._out.append({"role": "user", "content": "See the documents."})

    def _block(self, part: Part) -> dict[str, Any] | None:
        """Returns a block of a user message; None for documents of the request."""
        if isinstance(part, Text):
            return {"type": "text", "text": part.text}
        if isinstance(part, Image) or (isinstance(part, File) and part.media_type.startswith("image/")):
            return self._image(part)
        if isinstance(part, (Document, File)):
            self.documents.append(self._document(part))
            return None
        if isinstance(part, Audio):
            raise Unsupported(f"{self._provider} does not support audio. Send a transcript instead.")
        raise self._unsupported(part, "a user message")

    def _image(self, part: Image | File) -> dict[str, Any]:
        url = data_uri(part.data, part.media_type or "image/png") if part.data else part.url
        detail = _own(part).get("detail")
        return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}

    def _document(self, part: Document | File) -> dict[str, Any]:
        kind = part.media_type or "text/plain"
        if not part.data or not kind.startswith(_TEXTUAL):
            raise Unsupported(
                f"{self._provider} supports documents only as text, not {kind!r}"
                f"{' by URL' if not part.data else ''}. Extract the text and pass that."
            )
        document: dict[str, Any] = {"data": {"text": part.data.decode("utf-8", "replace")}}
        name = getattr(part, "filename", "")
        if name:
            document["data"]["title"] = name
        return document

    def _assistant(self, message: Message) -> None:
        plan = "".join(p.text for p in message.parts if isinstance(p, Reasoning) and _is_plan(p))
        content = []
        for part in own_parts(message, key=KEY, provider=self._provider, warn=self._warn):
            if isinstance(part, Text) and part.text:
                content.append({"type": "text", "text": part.text})
            elif isinstance(part, Reasoning) and part.text and not _is_plan(part):
                content.append({"type": "thinking", "thinking": part.text})
            elif isinstance(part, (Image, Audio, Document, File)):
                self._warn(
                    f"a file of the assistant ({part_kind(part)}) was left out: the API takes no files back"
                )
            elif isinstance(part, ToolCall) and part.provider_executed:
                self._warn(f"the tool call {part.name!r}, which a vendor ran, was left out")
            elif isinstance(part, Custom) and not part.type.startswith(f"{KEY}."):
                self._warn(f"a part of type {part.type!r} was left out: the API does not support it")
        calls = [_call(part) for part in message.tool_calls if not part.provider_executed]
        citations = [c for p in message.parts if (c := stored_citation(getattr(p, "metadata", None)))]
        out: dict[str, Any] = {"role": "assistant"}
        if content:
            plain = all(block["type"] == "text" for block in content)
            out["content"] = "".join(block["text"] for block in content) if plain else content
        if plan:
            out["tool_plan"] = plan
        if calls:
            out["tool_calls"] = calls
        if citations and content:
            out["citations"] = citations
        # The API rejects an empty message.
        if len(out) > 1:
            self._out.append(out)
        else:
            self._warn("an empty assistant message was left out")

    def _results(self, parts: Iterable[Part]) -> None:
        for part in parts:
            if not isinstance(part, ToolResult):
                continue
            if part.provider_executed:
                self._warn(f"the result of {part.name!r}, which a vendor ran, was left out")
                continue
            out = {"role": "tool", "tool_call_id": part.tool_call_id, "content": self._result(part)}
            self._out.append(out)

    def _result(self, part: ToolResult) -> Any:
        """Returns text, or with text files a list of documents; images are added later."""
        kept = _own(part).get("content")
        if kept is not None:
            return kept
        text = result_or_failure_text(part)
        documents = []
        for piece in part.parts:
            if isinstance(piece, Image):
                self._result_images.append((part.tool_call_id, piece))
            elif isinstance(piece, Document):
                documents.append({"type": "document", "document": self._document(piece)})
            else:
                raise self._unsupported(piece, "a tool result")
        if not documents:
            return text
        first = [{"type": "document", "document": {"data": {"text": text}}}] if text else []
        return [*first, *documents]

    def _flush_images(self) -> None:
        """Writes images of tool results, after all results of the turn."""
        images, self._result_images = self._result_images, []
        content: list[dict[str, Any]] = []
        for call_id, image in images:
            content.append({"type": "text", "text": f"This belongs to the result of tool call {call_id}:"})
            content.append(self._image(image))
        if content:
            self._out.append({"role": "user", "content": content})

    def _unsupported(self, part: object, where: str) -> Unsupported:
        return Unsupported(
            f"{self._provider} does not support a part of kind {part_kind(part)!r} in {where}. "
            "Send its content as text."
        )


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}


def _content(parts: Iterable[Part]) -> str | list[dict[str, Any]]:
    """Returns one string if possible, else a list of texts."""
    texts = [part.text for part in parts if isinstance(part, Text)]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]


def _own(part: object) -> dict[str, Any]:
    """Returns the vendor's metadata of a part, which is sent back."""
    own: dict[str, Any] = (getattr(part, "metadata", None) or {}).get(KEY) or {}
    return own


def _is_plan(part: Reasoning) -> bool:
    return bool(_own(part).get("tool_plan"))
