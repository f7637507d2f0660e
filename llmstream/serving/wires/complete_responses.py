"""What the complete responses of the vendors share: responses without a stream, folded from one.

Each dialect writes a stream and folds its own frames, as the vendors' SDKs do, so that both kinds of
response say the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from llmstream.framing.sse import SSEDecoder

__all__ = ["GrowingTexts", "json_input", "sse_objects"]


_decode: Final = msgspec.json.Decoder().decode


def sse_objects(body: bytes) -> Iterator[dict[str, Any]]:
    """The JSON objects of a stream of server-sent events; `[DONE]` is none."""
    for payload in SSEDecoder(max_bytes=max(1, len(body))).feed_data(body):
        if payload.startswith(b"{"):
            yield _decode(payload)


def json_input(text: str) -> Any:
    """The input of a call as a value.

    Text that is no JSON object is wrapped, as Anthropic advises for input that does not parse.
    """
    try:
        value = _decode(text or "{}")
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {"INVALID_JSON": text}


class GrowingTexts:
    """Strings in dicts that grow by fragments. They are joined once, so growing is linear."""

    def __init__(self) -> None:
        self._grown: dict[tuple[int, str], tuple[dict[str, Any], list[str]]] = {}

    def add(self, owner: dict[str, Any], name: str, fragment: str) -> None:
        """Appends to `owner[name]`, which holds the joined text after `join` only."""
        entry = self._grown.get((id(owner), name))  # the entry keeps the owner, so ids stay unique
        if entry is None:
            before = owner.get(name)
            owner[name] = ""
            self._grown[id(owner), name] = owner, [before if isinstance(before, str) else "", fragment]
        else:
            entry[1].append(fragment)

    def join(self) -> None:
        """Writes all of them."""
        for (_, name), (owner, fragments) in self._grown.items():
            owner[name] = "".join(fragments)
        self._grown.clear()
