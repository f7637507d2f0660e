"""Arguments that several commands take: numbers, rates, an effort, a schema, tools, attachments.

Their errors name what fits.
"""

from __future__ import annotations

import argparse
import mimetypes
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args
from urllib.parse import urlsplit

import msgspec

from llmstream.chats import Audio, Document, Image, Part, Text
from llmstream.errors import InvalidRequest
from llmstream.request import Effort

__all__ = [
    "EFFORTS",
    "REASONING_HELP",
    "add_tool_options",
    "attached",
    "count",
    "decimal",
    "effort",
    "natural",
    "number",
    "positive",
    "read_schema",
    "shard",
]


# Far above any use; beyond 4,300 digits, int() raises an error of its own.
_MAX_DIGITS: Final = 15
# Of a wrong value, in an error.
_MAX_SHOWN: Final = 20

EFFORTS: Final = get_args(Effort)
REASONING_HELP: Final = f"{', '.join(EFFORTS)}, or a budget in tokens"


def add_tool_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of commands that offer tools; `cli.tool_sources.ToolSources` reads them."""
    add = parser.add_argument
    add(
        "--tools",
        metavar="FILE.py",
        action="append",
        default=[],
        help="offer the public functions of a Python file as tools; demo: a clock and an invented weather "
        "report; repeatable",
    )
    add(
        "--mcp",
        metavar="COMMAND",
        action="append",
        default=[],
        help="offer the tools of an MCP server: its command, or its URL; repeatable",
    )
    add("--yes", action="store_true", help="run tool calls without asking")


def number(low: int, high: int | None = None) -> Callable[[str], int]:
    """The type of an integer within bounds, such as 100, 10,000 or 10_000."""

    def read(text: str) -> int:
        plain = text.replace(",", "").replace("_", "")
        value = int(plain) if plain.isdecimal() and len(plain) <= _MAX_DIGITS else -1
        if value < low or (high is not None and value > high):
            bounds = f"from {low} on" if high is None else f"from {low} to {high}"
            raise argparse.ArgumentTypeError(f"expected a number {bounds}, not {text[:_MAX_SHOWN]!r}")
        return value

    return read


count: Final = number(1)
natural: Final = number(0)


def decimal(text: str) -> float:
    """A number that is not negative, such as 0.2."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number such as 0.2, not {text[:_MAX_SHOWN]!r}")
    return value


def positive(text: str) -> float:
    """A number above 0."""
    value = decimal(text)
    if not value:
        raise argparse.ArgumentTypeError("expected a number above 0")
    return value


def effort(text: str) -> str | int:
    """The value of --reasoning: an effort, or a budget in tokens."""
    if text.isdecimal() and len(text) <= _MAX_DIGITS:
        return int(text)
    if text not in EFFORTS:
        raise argparse.ArgumentTypeError(f"expected {REASONING_HELP}, not {text[:_MAX_SHOWN]!r}")
    return text


def shard(text: str) -> tuple[int, int]:
    """The value of --shard, such as 3/16: the third of sixteen."""
    first, slash, of = text.partition("/")
    if slash and first.isdecimal() and of.isdecimal() and len(text) <= _MAX_DIGITS:
        found = int(first), int(of)
        if 1 <= found[0] <= found[1]:
            return found
    raise argparse.ArgumentTypeError(f"expected I/N such as 3/16, I from 1 to N, not {text[:_MAX_SHOWN]!r}")


# The value of `--schema`: a JSON schema, a file with one, or its short form `name, age int`.

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


# Attachments (`-a FILE`), and the kinds of message parts that they are.

# Upper limit of all vendors for one request: Gemini 20 MB, OpenAI and Anthropic 32 to 50 MB.
_MAX_BYTES: Final = 50_000_000

# First bytes of a file to its media type; they outrank the file name.
_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
    (b"ID3", "audio/mpeg"),
    (b"fLaC", "audio/flac"),
)
_RIFF: Final = {b"WEBP": "image/webp", b"WAVE": "audio/wav"}


def attached(file: str) -> Part:
    """Returns a file or an http(s) URL as a part of a message.

    Images, audio and PDFs become parts of their kind; a text file becomes text below its name.
    raises: InvalidRequest if it is unreadable, too large, empty, or of an unsupported kind
    """
    if file.startswith(("https://", "http://")):
        return _address(file)
    data = _read(file)
    name = os.path.basename(file)
    kind = _kind(data, name)
    if kind.startswith("image/"):
        return Image(data=data, media_type=kind)
    if kind.startswith("audio/"):
        return Audio(data=data, media_type=kind)
    if kind == "application/pdf":
        return Document(data=data, media_type=kind, filename=name)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    # Valid UTF-8, but no text file has one.
    if "\0" in text:
        raise InvalidRequest(
            f"cannot attach {file}: not an image, audio, a PDF or UTF-8 text. Convert it first."
        )
    return Text(f"{name}:\n\n{text}")


def _address(url: str) -> Part:
    path = urlsplit(url).path
    kind = mimetypes.guess_type(path)[0] or ""
    if kind.startswith("image/"):
        return Image(url=url, media_type=kind)
    if kind.startswith("audio/"):
        return Audio(url=url, media_type=kind)
    return Document(url=url, media_type=kind, filename=os.path.basename(path))


def _read(file: str) -> bytes:
    try:
        with open(file, "rb") as source:
            # One byte more detects a longer file; a device may have no end.
            data = source.read(_MAX_BYTES + 1)
    except OSError as error:
        raise InvalidRequest(f"cannot attach {file}: {error.strerror or error}. Check the path.") from None
    if len(data) > _MAX_BYTES:
        raise InvalidRequest(f"cannot attach {file}: it is larger than {_MAX_BYTES // 1_000_000} MB.")
    if not data:
        raise InvalidRequest(f"cannot attach {file}: the file is empty.")
    return data


def _kind(data: bytes, name: str) -> str:
    if data.startswith(b"RIFF"):
        return _RIFF.get(data[8:12], "")
    found = next((kind for sign, kind in _SIGNATURES if data.startswith(sign)), "")
    guessed = mimetypes.guess_type(name)[0] or ""
    # MP3 without tags, and others, have no signature; for images and PDFs the bytes decide.
    return found or (guessed if guessed.startswith("audio/") else "")
