"""The list of a server's tools, with methods for its resources and prompts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from urllib.parse import unquote, urlsplit

import msgspec

from llmstream.chats.content import Audio, Document, Image, Text
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest, ToolError
from llmstream.mcp.session import Session, all_pages
from llmstream.tools import LiveTools, ToolOutcome

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

__all__ = ["Prompt", "PromptArgument", "Resource", "ServerTools", "outcome_of", "valid_names"]


# Converts a server's result of a call to the outcome of a tool.


def outcome_of(result: CallToolResult) -> ToolOutcome:
    """Converts text to text, images, audio and files to parts, and structured content to a value.

    The model gets the texts, or without any the JSON of the structured content. A resource link becomes
    a line with its URI; nothing is fetched. isError makes it an error.

    raises: ToolError for invalid base64
    """
    texts: list[str] = []
    parts: list[Image | Document | Audio] = []
    for block in result.content:
        read = part_of(block)
        texts.append(read) if isinstance(read, str) else parts.append(read)
    text = "\n".join(texts)
    structured = _unwrapped(result.structured_content, text)
    # Servers should repeat the value as text (MCP 2025-11-25, tools); some do not.
    if structured is not None and not texts:
        text = msgspec.json.encode(structured).decode()
    if result.is_error:
        text = text or "The tool failed without a message."
        return ToolOutcome(text, tuple(parts), error=text, exception=ToolError(text))
    plain = structured is None or structured == text
    return ToolOutcome(
        text, tuple(parts), value=text if plain else structured, output=None if plain else structured
    )


def _unwrapped(structured: Any, text: str) -> Any:
    """Removes the object that servers put around a value that is not one, if the text has the value."""
    # The protocol allows objects only, so FastMCP puts other values into one with this key.
    if isinstance(structured, dict) and structured.keys() == {"result"}:
        value = structured["result"]
        if value == text or msgspec.json.encode(value).decode() == text:
            return value
    return structured


def part_of(block: Any) -> str | Image | Document | Audio:
    """Converts a content block by its `type`; an unknown one becomes its JSON."""
    match block.type:
        case "text":
            return str(block.text)
        case "image":
            return Image(data=_bytes(block.data), media_type=block.mime_type)
        case "audio":
            return Audio(data=_bytes(block.data), media_type=block.mime_type)
        case "resource_link":
            return f"{block.title or block.name}: {block.uri}"
        case "resource" if hasattr(block.resource, "text"):
            return str(block.resource.text)
        case "resource":
            return _file(block.resource)
    return str(block.model_dump_json(by_alias=True, exclude_none=True))


def resource_part(resource: Any) -> Text | Image | Document | Audio:
    """Converts the content of a resource: text or a file."""
    return Text(str(resource.text)) if hasattr(resource, "text") else _file(resource)


def _file(resource: Any) -> Image | Document | Audio:
    data, media_type = _bytes(resource.blob), resource.mime_type or "application/octet-stream"
    if media_type.startswith("image/"):
        return Image(data=data, media_type=media_type)
    if media_type.startswith("audio/"):
        return Audio(data=data, media_type=media_type)
    filename = PurePosixPath(unquote(urlsplit(str(resource.uri)).path)).name
    return Document(data=data, media_type=media_type, filename=filename)


def _bytes(text: str) -> bytes:
    try:
        # Without validate, foreign characters are skipped and a damaged file would pass.
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"The MCP server sent invalid base64: {error}") from None


_T = TypeVar("_T")

Content: TypeAlias = Text | Image | Audio | Document


class Resource(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A resource, or a template of resources.

    uri:         URI; for a template a URI template (RFC 6570) with `{names}` to fill in
    is_template: whether it is a template
    size:        size in bytes; None if unknown
    """

    uri: str
    name: str
    title: str = ""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    is_template: bool = False


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A prompt that a server provides."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerTools(LiveTools):
    """The tools of a server, with its resources and prompts.

    All methods raise ToolError if the server refuses the request, does not support it, or is gone, so
    tools of the application can call them. Models do not see resources and prompts by themselves.
    """

    def __init__(self, session: Session, timeout_s: float | None) -> None:
        super().__init__()
        self._session = session
        self._timeout_s = timeout_s

    # Unhashable, as any list.
    __hash__ = None  # type: ignore[assignment]

    async def resources(self) -> list[Resource]:
        """Lists the resources."""
        listed = await self._ask("the list of resources", lambda c: all_pages(c.list_resources, "resources"))
        return [_resource(r, str(r.uri), size=r.size) for r in listed]

    async def resource_templates(self) -> list[Resource]:
        """Lists the resource templates."""
        listed = await self._ask(
            "the list of resource templates",
            lambda c: all_pages(c.list_resource_templates, "resource_templates"),
        )
        return [_resource(r, r.uri_template, is_template=True) for r in listed]

    async def read_resource(self, uri: str) -> list[Content]:
        """Reads a resource: text, images, audio and other files, as parts of a message.

        raises: ToolError, also for invalid base64
        """
        result = await self._ask(f"the resource {uri}", lambda client: client.read_resource(uri))
        return [resource_part(content) for content in result.contents]

    async def prompts(self) -> list[Prompt]:
        """Lists the prompts."""
        listed = await self._ask("the list of prompts", lambda c: all_pages(c.list_prompts, "prompts"))
        return [
            Prompt(
                name=p.name,
                title=p.title or "",
                description=p.description or "",
                arguments=tuple(
                    PromptArgument(name=a.name, description=a.description or "", required=bool(a.required))
                    for a in p.arguments or ()
                ),
            )
            for p in listed
        ]

    async def prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[Message]:
        """Gets a prompt with its arguments filled in, as messages for `stream` and `Agent.run`."""
        given = None if arguments is None else dict(arguments)
        result = await self._ask(f"the prompt {name}", lambda client: client.get_prompt(name, given))
        return [Message("", Role(m.role), (_as_part(part_of(m.content)),)) for m in result.messages]

    async def _ask(self, what: str, request: Callable[[Client], Awaitable[_T]]) -> _T:
        return await self._session.ask(what, request, timeout_s=self._timeout_s)


def _resource(listed: Any, uri: str, **more: Any) -> Resource:
    return Resource(
        uri=uri,
        name=listed.name,
        title=listed.title or "",
        description=listed.description or "",
        media_type=listed.mime_type or "",
        **more,
    )


def _as_part(read: str | Content) -> Content:
    return Text(read) if isinstance(read, str) else read


# Makes the names of a server's tools valid for all vendors, and unique.

# The strictest vendor: OpenAI takes names of 64 characters.
_MAX_CHARS = 64
# At most half of a name: the rest distinguishes the tools of one server.
_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,31})?")


def valid_names(names: Iterable[str], prefix: str) -> list[str]:
    """Returns a valid, unique name for each name, in the same order.

    Invalid characters become `_`. A name that is too long or not unique ends in a digest of the
    original name and the number of its repetitions, so that it is the same in every process.

    raises: InvalidRequest for a prefix that cannot begin a name or is longer than 32
    """
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(
            f"invalid prefix {prefix!r}. Use up to 32 letters, digits, _ and -, not beginning with a digit."
        )
    given: dict[str, None] = {}
    copies: dict[str, int] = {}
    for name in names:
        # Cut first: the name that a server sends may have megabytes.
        plain = valid = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", name[: _MAX_CHARS + 1])
        # Gemini takes names that begin with a letter or an underscore.
        if not re.match(r"[A-Za-z_]", valid):
            plain = valid = f"_{valid}"
        while len(valid) > _MAX_CHARS or valid in given:
            # Nine: an underscore and the eight digits of the digest.
            valid = f"{plain[: _MAX_CHARS - 9]}_{_digest(name, copies.get(name, 0))}"
            copies[name] = copies.get(name, 0) + 1
        given[valid] = None
    return list(given)


def _digest(name: str, copy: int) -> str:
    text = f"{name}\n{copy}" if copy else name
    # Names may have lone surrogates: `read_json` accepts them.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
