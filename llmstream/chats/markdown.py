"""The parts of a message as Markdown for notebooks: text, reasoning, calls, results, small images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final
from urllib.parse import quote

from llmstream.chats.content import (
    Audio,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    data_url,
    part_kind,
)
from llmstream.chats.safe_markdown import code_span, folded_line, plain_text, safe_markdown
from llmstream.exchange import shown_address
from llmstream.short_forms import counted

__all__ = ["parts_markdown"]

# Of a call or result, which is one line in a notebook.
_CODE_CHARS: Final = 200
# A larger image is only named: a notebook stores its outputs, and growing ones are sent many times.
_MOST_IMAGE_BYTES: Final = 512 * 1024
# SVG is not among them: it may hold scripts.
_IMAGES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
# What RFC 3986 allows in an address, without the parentheses, which end a link in Markdown.
_URL_CHARS: Final = "%/:?#[]@!$&'*+,;=~-._"


def parts_markdown(parts: Iterable[Part], *, names: Mapping[str, str] = {}, folded: bool = True) -> str:
    """The parts of a message as Markdown; "" if none shows anything.

    Text is shown as the model wrote it, without HTML and images; `safe_markdown` explains why.

    names:  of tools by call id, for results that do not have them
    folded: whether reasoning is hidden until it is clicked
    """
    blocks = (
        block
        for kind, neighbours in groupby(parts, key=type)
        for block in _blocks(kind, list(neighbours), names, folded=folded)
    )
    return "\n\n".join(filter(None, blocks))


def _blocks(kind: type, parts: Sequence[Part], names: Mapping[str, str], *, folded: bool) -> list[str]:
    """The blocks of neighbouring parts of one kind."""
    if kind is Text:
        return [safe_markdown("".join([part.text for part in parts if isinstance(part, Text)]))]
    if kind is Reasoning:
        text = safe_markdown("\n\n".join([part.text for part in parts if isinstance(part, Reasoning)]))
        state = "" if folded else " open"
        return [f"<details{state}><summary>Reasoning</summary>\n\n{text}\n\n</details>"] if text else []
    if kind is Source:
        return ["\n".join([f"- {_source(part)}" for part in parts if isinstance(part, Source)])]
    return [_block(part, names) for part in parts]


def _block(part: Part, names: Mapping[str, str]) -> str:
    match part:
        case ToolCall():
            return code_span(folded_line(f"{part.name}({part.arguments})", _CODE_CHARS))
        # Results by some vendors' form have the id of the call alone.
        case ToolResult():
            name = code_span(part.name or names.get(part.tool_call_id) or part.tool_call_id or "tool")
            content = code_span(folded_line(part.content, _CODE_CHARS)) if part.content.strip() else ""
            line = f"{name} failed: {content}" if part.is_error else f"{name} → {content or 'nothing'}"
            return "\n\n".join([line, *[_file(file) for file in part.parts]])
        case Image() | Audio() | Document() | File():
            return _file(part)
        case _:
            return f"*{plain_text(part_kind(part))}*"


def _file(file: Image | Audio | Document | File) -> str:
    """A small image itself; of other files the kind, and the size or the address."""
    kind = plain_text(file.media_type or type(file).__name__.lower())
    if file.data:
        if file.media_type in _IMAGES and len(file.data) <= _MOST_IMAGE_BYTES:
            return f"![{kind}]({data_url(file.data, file.media_type)})"
        return f"*{kind}, {counted(len(file.data), 'byte')}*"
    # A query or user may be a credential, which a saved notebook should not hold.
    if "?" in file.url or "@" in file.url:
        return f"*{kind}, {plain_text(shown_address(file.url))}*"
    return _link(kind, file.url)


def _source(source: Source) -> str:
    title = plain_text(source.title or source.filename or source.url or source.id)
    return _link(title, source.url)


def _link(text: str, url: str) -> str:
    """A link; only the text where the address is not of the web."""
    if not url.lower().startswith(("https://", "http://")):
        return text
    return f"[{text}]({quote(url, safe=_URL_CHARS, errors='replace')})"
