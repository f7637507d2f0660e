"""The option `--schema`: a file with a JSON schema, or its short form `name, age int`."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, Final

import msgspec

from llmstream.errors import InvalidRequest

__all__ = ["read_schema"]

_TYPES: Final = {
    "str": "string",
    "string": "string",
    "int": "integer",
    "integer": "integer",
    "float": "number",
    "number": "number",
    "bool": "boolean",
    "boolean": "boolean",
}
_FIELD: Final = re.compile(r"([^\W\d]\w{0,63})(?:\s+([a-z]+)(\[\])?)?\s*(?::\s*(.+))?", re.DOTALL)
_EXAMPLE: Final = "'name, age int, bio: a short bio'"


def read_schema(text: str) -> dict[str, Any]:
    """The JSON schema of an object, from the value of `--schema`.

    text:   a file; or a JSON schema itself; or fields with commas (or line feeds) between them, each
            `name`, `name type` or `name type: description`, with the types str (the default), int, float and
            bool, and `type[]` for a list of them. All fields are required. A description with a comma
            needs a line of its own: then fields are separated by line feeds
    raises: InvalidRequest if the file cannot be read, is not a JSON schema, or a field is not understood
    """
    if text.lstrip().startswith("{"):
        return _decoded(text.encode(), "the text of --schema")
    if os.path.isfile(text):
        return _from_file(text)
    if _is_path(text):
        raise InvalidRequest(f"cannot read {text}: there is no such file. Check the path.")
    return _short(text)


def _is_path(text: str) -> bool:
    # A description after a colon may have a slash.
    return text.endswith(".json") or os.sep in text.partition(":")[0]


def _from_file(file: str) -> dict[str, Any]:
    try:
        return _decoded(Path(file).read_bytes(), file)
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None


def _decoded(data: bytes, where: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{where} is not a JSON schema: {error}") from None


def _short(text: str) -> dict[str, Any]:
    fields = [field.strip() for field in text.strip().split("\n" if "\n" in text.strip() else ",")]
    properties: dict[str, Any] = {}
    for field in filter(None, fields):
        name, schema = _field(field)
        if name in properties:
            raise InvalidRequest(f"--schema names the field {name!r} twice")
        properties[name] = schema
    if not properties:
        raise InvalidRequest(f"--schema is empty. Name a file, or fields: {_EXAMPLE}.")
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        # OpenAI's strict schemas need it, and all fields required.
        "additionalProperties": False,
    }


def _field(text: str) -> tuple[str, dict[str, Any]]:
    found = _FIELD.fullmatch(text)
    if found is None:
        raise InvalidRequest(
            f"--schema: {text!r} is neither a file nor a field. Fields look like {_EXAMPLE}."
        )
    name, kind, is_list, description = found.groups()
    if (kind or "str") not in _TYPES:
        raise InvalidRequest(
            f"--schema: the field {name!r} has the type {kind!r}. Types are str, int, float and bool."
        )
    schema: dict[str, Any] = {"type": _TYPES[kind or "str"]}
    if is_list:
        schema = {"type": "array", "items": schema}
    if description:
        schema["description"] = description.strip()
    return name, schema
