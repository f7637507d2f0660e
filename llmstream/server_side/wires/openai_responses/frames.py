"""The frames of a written response: numbered events, and the response object around its items."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from llmstream.events import ResponseMetadata
from llmstream.server_side.wires.event_writer import sse_event

__all__ = ["Frames"]


class Frames:
    """Numbers the frames and the output items of one response.

    background: the response is generated in the background and stored
    repeated:   fields of the request that the response object repeats

    output: complete items by their index
    """

    def __init__(
        self, model: str, *, background: bool = False, repeated: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.output: dict[int, dict[str, Any]] = {}
        self._background = background
        self._repeated = repeated
        self._number = 0
        self._next_index = 0
        self._begun = False
        self._names: dict[str, Any] = {"id": "resp_llmstream", "created_at": 0, "model": model}

    def event(self, kind: str, **fields: Any) -> bytes:
        """Encodes one event."""
        data = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return sse_event(kind, data)

    def begin(self, names: ResponseMetadata | None = None) -> bytes:
        """Writes the first two events; b"" on later calls."""
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
        """Opens an item; returns its index and the event."""
        index = self._next_index
        self._next_index += 1
        begin = self.begin()
        return index, begin + self.event("response.output_item.added", output_index=index, item=item)

    def done(self, index: int, item: dict[str, Any]) -> bytes:
        """Completes an item."""
        self.output[index] = item
        return self.event("response.output_item.done", output_index=index, item=item)

    def in_one_piece(self, item: dict[str, Any], opened: dict[str, Any]) -> bytes:
        """Opens and completes an item."""
        index, data = self.add(opened)
        return data + self.done(index, item)

    def end(self, status: str, **fields: Any) -> bytes:
        """Writes the last event, with the complete response."""
        response = self._response(status) | {"output": [self.output[i] for i in sorted(self.output)]}
        # There is no event of that name, except for responses in the background.
        kind = "completed" if status == "cancelled" else status
        return self.begin() + self.event(f"response.{kind}", response=response | fields)

    def item_id(self, prefix: str, block_id: str) -> str:
        """Returns the id of the item for a block."""
        # The vendor's ids begin with their kind, such as `msg_`.
        if not block_id[:1].isdigit():
            return block_id
        # Ids of blocks count from 0 in every response. Those of items are unique in a conversation: the tool
        # runner of openai-node 7.57 rejects one that is repeated.
        return f"{prefix}_{str(self._names['id']).removeprefix('resp_')}_{block_id}"

    def _response(self, status: str) -> dict[str, Any]:
        plain = self._plain_response(status)
        # Defaults of these two objects stay beside the fields that the request has set.
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
            # Only responses in the background can be read again here.
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
