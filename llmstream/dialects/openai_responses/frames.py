"""The frame of a written response: numbered events, the response around its items, its last word."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from llmstream.events import ResponseMetadata

__all__ = ["Frames"]

_encode = msgspec.json.Encoder().encode


class Frames:
    """Writes events as frames, each with its number; items get their place in the output.

    background: the response is made in the background and kept
    repeated:   fields of the request that the response says again

    output: the items that are done, by their place
    """

    def __init__(
        self, model: str, *, background: bool = False, repeated: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.output: dict[int, dict[str, Any]] = {}
        self._background = background
        self._repeated = repeated
        self._number = 0
        self._places = 0
        self._begun = False
        self._names: dict[str, Any] = {"id": "resp_llmstream", "created_at": 0, "model": model}

    def event(self, kind: str, **fields: Any) -> bytes:
        """One event."""
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return b"event: " + kind.encode() + b"\ndata: " + _encode(data) + b"\n\n"

    def begin(self, names: ResponseMetadata | None = None) -> bytes:
        """The first two events, once."""
        if self._begun:
            return b""
        self._begun = True
        if names is not None:
            self._names |= {"id": names.id, "model": names.model_id}
            if names.timestamp is not None:
                self._names["created_at"] = int(names.timestamp.timestamp())
        response = self._response("in_progress")
        return self.event("response.created", response=response) + self.event(
            "response.in_progress", response=response
        )

    def add(self, item: dict[str, Any]) -> tuple[int, bytes]:
        """An item opens: its place, and the event."""
        place = self._places
        self._places += 1
        started = self.begin()
        return place, started + self.event("response.output_item.added", output_index=place, item=item)

    def done(self, place: int, item: dict[str, Any]) -> bytes:
        """An item is whole."""
        self.output[place] = item
        return self.event("response.output_item.done", output_index=place, item=item)

    def whole(self, item: dict[str, Any], opened: dict[str, Any]) -> bytes:
        """An item that opens and is whole at once."""
        place, data = self.add(opened)
        return data + self.done(place, item)

    def end(self, status: str, **said: Any) -> bytes:
        """The last event."""
        response = self._response(status) | {"output": [self.output[i] for i in sorted(self.output)]}
        kind = "completed" if status == "cancelled" else status
        return self.begin() + self.event(f"response.{kind}", response=response | said)

    def item_id(self, prefix: str, block_id: str) -> str:
        """The id of an item that has none of the vendor's.

        Ids of blocks count from 0 in every answer; those of items are unique in a conversation, and
        the tool runner of openai-node 7.57 refuses one that comes again.
        """
        if not block_id[:1].isdigit():  # the vendor's begin with their kind, such as `msg_`
            return block_id
        return f"{prefix}_{str(self._names['id']).removeprefix('resp_')}_{block_id}"

    def _response(self, status: str) -> dict[str, Any]:
        plain = self._plain_response(status)
        inside = {
            name: {**plain[name], **self._repeated[name]}
            for name in ("reasoning", "text")
            if name in self._repeated
        }
        return {**plain, **self._repeated, **inside}

    def _plain_response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._names["id"],
            "object": "response",
            "created_at": self._names["created_at"],
            "status": status,
            "background": self._background,
            "error": None,
            "incomplete_details": None,
            "instructions": None,
            "max_output_tokens": None,
            "model": self._names["model"],
            "output": [],
            "parallel_tool_calls": True,
            "previous_response_id": None,
            "reasoning": {"effort": None, "summary": None},
            "store": self._background,
            "temperature": 1.0,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": 1.0,
            "truncation": "disabled",
            "usage": None,
            "user": None,
            "metadata": {},
        }
