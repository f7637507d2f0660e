"""Files by URL as bytes, where a vendor does not fetch them itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from llmstream.chats.content import Audio, Document, File, Image, Part, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.dialects.base import Dialect, takes_url
from llmstream.request import Request
from llmstream.transport.public_addresses import DownloadLimits

__all__ = ["Inliner"]

_Media: TypeAlias = Image | Audio | Document | File
_KINDS = {Image: "image", Audio: "audio", Document: "document", File: "document"}
_AT_ONCE = 4


class Inliner:
    """For one call and all its attempts: what was downloaded once is not asked for again.

    downloads: the limits; None downloads nothing and only unpacks data URLs, so that the
               dialect refuses what its vendor cannot take
    """

    def __init__(self, dialect: Dialect, downloads: DownloadLimits | None) -> None:
        self._dialect = dialect
        self._downloads = downloads
        self._held: dict[tuple[str, str], tuple[bytes, str]] = {}

    async def inline(self, request: Request) -> Request:
        """The request with bytes in place of the URLs that the vendor does not take.

        Messages of the user and results of tools are looked at; the originals stay as they are.

        raises: as `transport.download.download`
        """
        wanted = {_key(part): None for part in _media_of(request) if self._is_wanted(part)}
        if not wanted:
            return request
        await self._fetch([key for key in wanted if key not in self._held])
        messages = tuple(self._message(message) for message in request.messages)
        return msgspec.structs.replace(request, messages=messages)

    def _is_wanted(self, part: _Media) -> bool:
        if part.data or not part.url:
            return False
        schemes = ("data:",) if self._downloads is None else ("data:", "https:", "http:")
        return part.url.lower().startswith(schemes) and not takes_url(self._dialect, part)

    async def _fetch(self, keys: list[tuple[str, str]]) -> None:
        from llmstream.transport.download import download

        limits = self._downloads or DownloadLimits()
        few = asyncio.Semaphore(_AT_ONCE)

        async def fetch(key: tuple[str, str]) -> None:
            async with few:
                found = await download(key[1], limits=limits, kind=key[0])
            self._held[key] = (found.data, found.media_type)

        try:
            async with asyncio.TaskGroup() as group:
                for key in keys:
                    group.create_task(fetch(key))
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None

    def _message(self, message: Message) -> Message:
        if not _is_searched(message):
            return message
        return msgspec.structs.replace(message, parts=tuple(self._part(part) for part in message.parts))

    def _part(self, part: Part) -> Part:
        if isinstance(part, ToolResult):
            return msgspec.structs.replace(part, parts=tuple(self._bytes_of(file) for file in part.parts))
        return self._bytes_of(part) if isinstance(part, _Media) else part

    def _bytes_of(self, part: _Media) -> _Media:
        if not self._is_wanted(part):
            return part
        data, media_type = self._held[_key(part)]
        return msgspec.structs.replace(part, url="", data=data, media_type=part.media_type or media_type)


def _key(part: _Media) -> tuple[str, str]:
    return _KINDS[type(part)], part.url


def _is_searched(message: Message) -> bool:
    return message.role not in (Role.ASSISTANT, Role.SYSTEM, "developer")


def _media_of(request: Request) -> Iterator[_Media]:
    for message in request.messages:
        if not _is_searched(message):
            continue
        for part in message.parts:
            if isinstance(part, _Media):
                yield part
            elif isinstance(part, ToolResult):
                yield from part.parts
