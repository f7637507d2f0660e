"""The content of an AG-UI message: a text, or parts with files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from llmstream.chats.content import Audio, Document, Image, Part, Text, read_base64, read_data_url
from llmstream.errors import InvalidRequest

__all__ = ["ContentReader"]


class ContentReader:
    """Reads content.

    allow_url: whether a file may be read from an address
    """

    def __init__(self, allow_url: Callable[[str], bool]) -> None:
        self._allow_url = allow_url

    def text(self, content: object, where: str) -> str:
        """Returns the text; other parts have no place in the message.

        where:  the place in the request, for the error
        raises: InvalidRequest for anything but text and parts
        """
        if content is None:
            return ""
        # Such as an image in a system message: no vendor takes one there.
        return "".join(part.text for part in self.parts(content, where) if isinstance(part, Text))

    def parts(self, content: object, where: str) -> Iterator[Part]:
        """Returns the parts; raises as `text`."""
        if isinstance(content, str):
            yield Text(content)
            return
        if not isinstance(content, list):
            raise InvalidRequest(f"{where}: content is a text or a list of parts")
        for place, part in enumerate(content):
            if not isinstance(part, dict) or not isinstance(part.get("type"), str):
                raise InvalidRequest(f"{where}.content[{place}] is no part with a type")
            yield self._part(part, f"{where}.content[{place}]")

    def _part(self, part: dict[str, Any], where: str) -> Part:
        kind = part["type"]
        if kind == "text" and isinstance(part.get("text"), str):
            return Text(part["text"])
        source = part if kind == "binary" else part.get("source")
        if kind not in ("image", "audio", "video", "document", "binary") or not isinstance(source, dict):
            raise InvalidRequest(
                f"{where} of type {kind!r} cannot be read. Send a text, or a file: an image, audio, video or "
                "document with a source."
            )
        media_type, url, data = self._source(source, where)
        if kind == "image" or media_type.startswith("image/"):
            return Image(url, data, media_type)
        if kind == "audio" or media_type.startswith("audio/"):
            return Audio(url, data, media_type)
        name = part.get("filename")
        return Document(url, data, media_type, name if isinstance(name, str) else "")

    def _source(self, source: dict[str, Any], where: str) -> tuple[str, str, bytes]:
        """Media type, address and bytes; also of a `binary` part, which clients before 1.0 send."""
        given = source.get("mimeType")
        media_type = given if isinstance(given, str) else ""
        match source:
            case {"type": "data", "value": str(data)} | {"type": "binary", "data": str(data)}:
                return media_type, "", read_base64(data, where)
            case {"type": "url", "value": str(url)} | {"type": "binary", "url": str(url)}:
                # Not `url.lower()`: a data URL may have megabytes.
                if url[:5].lower() == "data:":
                    found, decoded = read_data_url(url, where)
                    return media_type or found, "", decoded
                if not self._allow_url(url):
                    # By default such as gs: the server's own key would read it for whoever knows its name.
                    raise InvalidRequest(
                        f"{where}: files may not be read from this address. Send the file itself, or pass "
                        "ag_ui.read(allow_url=...)."
                    )
                return media_type, url, b""
        raise InvalidRequest(
            f"{where}: a file is read from a source of type data or url, with a value. Of a file that is "
            "stored at a vendor, send the bytes."
        )
