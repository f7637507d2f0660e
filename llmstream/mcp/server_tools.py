"""The list of a server's tools, with methods for its resources and prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import msgspec

from llmstream.chats.content import Audio, Document, Image, Text
from llmstream.chats.message import Message, Role
from llmstream.mcp.results import part_of, resource_part
from llmstream.mcp.session import Session, all_pages
from llmstream.tools import LiveTools

if TYPE_CHECKING:
    from mcp import Client

__all__ = ["Prompt", "PromptArgument", "Resource", "ServerTools"]

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
