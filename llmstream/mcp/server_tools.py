"""What a server offers beside its tools: resources and prompts, as plain methods of the list of tools."""

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
    """Something that a server lets be read.

    uri:         its address; of a template with `{names}` to be filled, as of RFC 6570
    is_template: whether it is one
    size:        in bytes, where the server says
    """

    uri: str
    name: str
    title: str = ""
    description: str = ""
    media_type: str = ""
    size: int | None = None
    is_template: bool = False


class PromptArgument(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a prompt is filled with."""

    name: str
    description: str = ""
    required: bool = False


class Prompt(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The beginning of a conversation that a server has ready."""

    name: str
    title: str = ""
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


class ServerTools(LiveTools):
    """The tools of a server, and what else it offers.

    Each method raises ToolError where the server refuses, has no such thing, or is gone; so a tool of
    the application may call them, too. Nothing of it reaches a model by itself.
    """

    def __init__(self, session: Session, timeout_s: float | None) -> None:
        super().__init__()
        self._session = session
        self._timeout_s = timeout_s

    __hash__ = None  # type: ignore[assignment]  # as of any list

    async def resources(self) -> list[Resource]:
        """What can be read, as far as the server lists it."""
        listed = await self._ask("the list of resources", lambda c: all_pages(c.list_resources, "resources"))
        return [_resource(r, str(r.uri), size=r.size) for r in listed]

    async def resource_templates(self) -> list[Resource]:
        """What can be read once its address is filled."""
        listed = await self._ask(
            "the list of resource templates",
            lambda c: all_pages(c.list_resource_templates, "resource_templates"),
        )
        return [_resource(r, r.uri_template, is_template=True) for r in listed]

    async def read_resource(self, uri: str) -> list[Content]:
        """What stands there: text, images, audio and other files, as parts of a message.

        raises: ToolError where a part holds no valid base64, too
        """
        result = await self._ask(f"the resource {uri}", lambda client: client.read_resource(uri))
        return [resource_part(content) for content in result.contents]

    async def prompts(self) -> list[Prompt]:
        """The prompts that the server has."""
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
        """A prompt, filled: messages that `stream` and `Agent.run` take."""
        given = None if arguments is None else dict(arguments)
        result = await self._ask(f"the prompt {name}", lambda client: client.get_prompt(name, given))
        return [Message("", Role(said.role), (_as_part(part_of(said.content)),)) for said in result.messages]

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
