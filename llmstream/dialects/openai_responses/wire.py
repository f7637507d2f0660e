"""Events of a Responses stream, as loosely typed as the servers that speak it.

Only what the decoder looks at is named. Which fields an event has depends on its `type`; all of
them share one Struct, so that an event is decoded once and harmless looseness is no defect.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

__all__ = ["WireEvent", "events"]


Place: TypeAlias = int | float | str | None


class WireEvent(msgspec.Struct, gc=False):
    """One event of the stream.

    item:     an output item, whole or as far as it is known
    response: the response, as far as it is known
    delta:    a fragment: text, base64, or an object (outputs of a shell)
    thought:  what the model thinks while its vendor's tools run (Perplexity)
    choices:  only Chat Completions have them: a wrong address
    """

    type: str | None = None
    output_index: Place = None
    delta: Any = None
    logprobs: list[Any] | None = None
    item_id: Place = None
    content_index: Place = None
    summary_index: Place = None
    item: dict[str, Any] | None = None
    part: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    code: Any = None
    diff: Any = None
    command: Any = None
    command_index: Place = None
    partial_image_b64: Any = None
    partial_image_index: Any = None
    background: Any = None
    output_format: Any = None
    quality: Any = None
    size: Any = None
    error: Any = None
    message: Any = None
    detail: Any = None
    param: Any = None
    thought: Any = None
    choices: Any = None
    object: Any = None


events: Final = msgspec.json.Decoder(WireEvent)
