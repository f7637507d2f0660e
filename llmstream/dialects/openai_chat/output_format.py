"""The wish for an answer in JSON: by the wire's field as far as the vendor knows it, else in words."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.dialects.json_wishes import ANSWER_IN_JSON, in_words, says_json
from llmstream.dialects.openai_chat.moonshot_schema import moonshot_schema
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_schema import openai_strict_schema
from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.request import Request, ResponseFormat

__all__ = ["OutputWish", "encode_output"]


class OutputWish(msgspec.Struct, frozen=True):
    """What a request says of it.

    field:       `response_format`, or None
    instruction: a system message to stand first, or None
    """

    field: dict[str, Any] | None = None
    instruction: str | None = None


def encode_output(request: Request, quirks: Quirks, warnings: list[Warning]) -> OutputWish:
    """The wish of a request."""
    wanted, known = request.response_format, quirks.response_format
    if wanted is None:
        return OutputWish()
    if wanted.schema is not None and known == "json_schema":
        return OutputWish({"type": "json_schema", "json_schema": _schema(wanted, quirks, warnings)})
    field = {"type": "json_object"} if known != "none" and quirks.json_object else None
    if field is not None and wanted.schema is None:
        return OutputWish(field, None if says_json(request.messages) else ANSWER_IN_JSON)
    what = "it" if wanted.schema is None else "the schema"
    warnings.append(UnsupportedSetting("response_format", f"{what} went into the prompt instead"))
    return OutputWish(field, in_words(wanted))


def _schema(wanted: ResponseFormat, quirks: Quirks, warnings: list[Warning]) -> dict[str, Any]:
    """The field `json_schema`."""
    schema = wanted.schema or {}
    out: dict[str, Any] = {"name": wanted.name, "schema": schema, "strict": wanted.strict}
    if quirks.schema_subset == "moonshot":
        out["schema"], moved = moonshot_schema(schema)
        if moved:
            words = "the output schema says what the API cannot check; that went into descriptions"
            warnings.append(OtherWarning(words))
    elif wanted.strict and "properties" in schema:
        fitting = openai_strict_schema(schema)
        if fitting is None:
            warnings.append(OtherWarning("the output schema is not strict: it has open objects"))
            out["strict"] = False
        else:
            out["schema"] = fitting
    if wanted.description:
        out["description"] = wanted.description
    return out
