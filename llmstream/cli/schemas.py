"""JSON schemas of `--schema`: a file, JSON text, or the short syntax of simonw/llm.

    name, age int, bio: a short biography

One field for each comma or line: a name, then a type, then a colon and a description. Types are str
(the default), int, float and bool.
source: https://llm.datasette.io/en/stable/schemas.html (seen 2026-11)
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import msgspec

from llmstream.errors import InvalidRequest

__all__ = ["schema_of"]

_SHORT: Final = {"str": "string", "int": "integer", "float": "number", "bool": "boolean"}
_TYPES: Final = {**_SHORT, **{name: name for name in _SHORT.values()}}
_NAME: Final = re.compile(r"[A-Za-z_]\w{0,63}")


def schema_of(given: str) -> dict[str, Any]:
    """Returns a JSON schema.

    given:  name of a file, JSON text that begins with {, or fields in the short syntax
    raises: InvalidRequest if it is none of these
    """
    text = given.strip()
    if text.startswith("{"):
        return _decoded(text.encode(), "--schema")
    return _decoded(_read(text), text) if _is_file(text) else _of_fields(text)


def _is_file(text: str) -> bool:
    """Whether the text names a file: it has a slash or the suffix .json, or the file exists."""
    named = "\n" not in text and (text.endswith(".json") or "/" in text.partition(":")[0])
    try:
        return named or Path(text).is_file()
    # Longer than a name may be.
    except OSError:
        return False


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None


def _decoded(data: bytes, source: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{source} is not a JSON schema: {error}") from None


def _of_fields(text: str) -> dict[str, Any]:
    # A description may contain commas if each field has its own line.
    fields = text.splitlines() if "\n" in text else text.split(",")
    properties = dict(_field(field) for field in fields if field.strip())
    if not properties:
        raise _not_a_schema(text)
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _field(field: str) -> tuple[str, dict[str, Any]]:
    head, _, description = field.partition(":")
    name, _, kind = head.strip().partition(" ")
    form = _TYPES.get(kind.strip().lower() or "str")
    if form is None or not _NAME.fullmatch(name):
        raise _not_a_schema(field)
    described = {"description": description.strip()} if description.strip() else {}
    return name, {"type": form, **described}


def _not_a_schema(text: str) -> InvalidRequest:
    return InvalidRequest(
        f"{text.strip()!r} is neither a JSON schema, nor a file, nor a list of fields such as "
        "'name, age int, bio: a short biography'. Types: str, int, float, bool."
    )
