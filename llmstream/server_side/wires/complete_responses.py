"""Complete responses: responses without streaming, assembled from a stream.

Each dialect writes a stream and assembles its own frames, as the vendors' SDKs do, so that both kinds of
response have the same content.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.framing.sse import SSEDecoder

__all__ = ["GrowingTexts", "json_input", "sse_objects"]


_decode: Final = msgspec.json.Decoder().decode


def sse_objects(body: bytes) -> Iterator[dict[str, Any]]:
    """Yields the JSON objects of a stream of server-sent events, without `[DONE]`."""
    for payload in SSEDecoder(max_bytes=max(1, len(body))).feed_data(body):
        if payload.startswith(b"{"):
            yield _decode(payload)


def json_input(text: str) -> Any:
    """Decodes the input of a call.

    Text that is not a JSON object is wrapped, as Anthropic advises for input that does not parse.
    """
    try:
        value = _decode(text or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


class GrowingTexts:
    """Appends fragments to strings in dicts. They are joined once, so that appending is linear."""

    def __init__(self) -> None:
        self._grown: dict[tuple[int, str], tuple[dict[str, Any], list[str]]] = {}

    def add(self, owner: dict[str, Any], name: str, fragment: str) -> None:
        """Appends to `owner[name]`, which has the joined text only after `join`."""
        # The entry holds a reference to the owner, so its id stays unique.
        entry = self._grown.get((id(owner), name))
        if entry is None:
            before = owner.get(name)
            owner[name] = ""
            self._grown[id(owner), name] = owner, [before if isinstance(before, str) else "", fragment]
        else:
            entry[1].append(fragment)

    def join(self) -> None:
        """Writes the joined texts into their dicts."""
        for (_, name), (owner, fragments) in self._grown.items():
            owner[name] = "".join(fragments)
        self._grown.clear()
