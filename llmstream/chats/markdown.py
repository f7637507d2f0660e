"""The parts of a message as Markdown for notebooks, and Markdown of unknown origin made safe for them."""

from __future__ import annotations

import re
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
from llmstream.exchange import shown_address
from llmstream.short_forms import counted

__all__ = ["code_span", "folded_line", "parts_markdown", "plain_text", "safe_markdown"]

# Of a call or result, which is one line in a notebook.
_CODE_CHARS: Final = 200
# A larger image is only named: a notebook stores its outputs, and growing ones are sent many times.
_MAX_IMAGE_BYTES: Final = 512 * 1024
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
        # In some vendors' form, results have only the id of the call.
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
        if file.media_type in _IMAGES and len(file.data) <= _MAX_IMAGE_BYTES:
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


# Makes Markdown of unknown origin safe for a notebook.
#
# A notebook renders the Markdown of its own outputs unfiltered: a tag may run a script, which can run code in
# the kernel, and an image sends its address, with whatever a prompt injection wrote into that, to a server.
# So nothing here becomes a tag or loads anything. Text, code, tables, lists, formulas and links stay.
#
# Safety does not depend on finding code exactly as the renderer does. Code is written again, in a form that
# every renderer reads alike; outside of it no "<" and no backtick is left.


# C0 and C1 without tab and line feed: renderers drop or obey them. Lone surrogates have no UTF-8.
_CONTROL: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
# A fence of backticks has none in its info (CommonMark 0.31, 4.5); tildes become backticks.
_FENCE: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})([^`]*)")
_LANGUAGE: Final = re.compile(r"[\w+#.-]+")
_BLANK_LINES: Final = re.compile(r"\n[ \t]*\n")
_BACKTICKS: Final = re.compile("`+")
_MEANS_MORE: Final = re.compile(r"[<|`\\$!\[\]]")
# ASCII punctuation (CommonMark 0.31, 2.4): only these characters have a meaning in Markdown.
_PUNCTUATION: Final = re.compile(r"[!-/:-@\[-`{-~]")

_UNSAFE: Final = re.compile(
    r"\\?[<`]"
    r"|!\["  # an image
    r"|&(?=#|colon;|Tab;|NewLine;)"  # a hidden character of a scheme
    r"|(?i:(?:java|vb)script)(?=\\?:)"
    r"|~~~"
    r"|\\(?=(?:href|style|class|cssId|require|includegraphics)\b)"  # of MathJax: they make HTML attributes
)


def safe_markdown(text: str) -> str:
    """The text without anything that a notebook would run or load.

    HTML tags show as text, images as links, links have no scheme of a script. A code block that is not
    closed ends with the text, so that an answer can be shown while it grows.
    """
    lines = _CONTROL.sub(_shown_control, text.replace("\r\n", "\n")).rstrip("\n").split("\n")
    out: list[str] = []
    prose: list[str] = []
    at = 0
    while at < len(lines):
        opener = _FENCE.fullmatch(lines[at])
        at += 1
        if opener is None:
            prose.append(lines[at - 1])
            continue
        begin = at
        while at < len(lines) and not _closes(lines[at], opener[2]):
            at += 1
        out += [_safe_prose("\n".join(prose)), "", *_fenced(opener, lines[begin:at]), ""]
        prose = []
        at += 1
    return "\n".join([*out, _safe_prose("\n".join(prose))]).strip("\n")


def code_span(text: str) -> str:
    """A code span of one line.

    Some renderers end it early: a "|" in a table does, and an address before it can swallow its backtick. So
    it is HTML without punctuation if its content would then mean something.
    """
    text = folded_line(text)
    if text and not _MEANS_MORE.search(text) and "script:" not in text.lower():
        return f"`{text}`"
    return f"<code>{plain_text(text)}</code>"


def plain_text(text: str) -> str:
    """The text in one line, in which no character means anything to Markdown or HTML."""
    return _PUNCTUATION.sub(lambda found: f"&#{ord(found[0])};", folded_line(text))


def folded_line(text: str, limit: int = 0) -> str:
    """The text without line breaks, cut to `limit` characters; 0 for no limit."""
    # Cut before the search: a result may have megabytes, of which a line shows the beginning.
    text = _CONTROL.sub(_shown_control, text[: 2 * limit] if limit else text)
    text = " ".join(text.split())
    return text[: limit - 1] + "…" if 0 < limit < len(text) else text


def _shown_control(found: re.Match[str]) -> str:
    return "\ufffd" if found[0] >= "\ud800" else ""


def _closes(line: str, opener: str) -> bool:
    line = line.strip(" \t")
    return len(line) >= len(opener) and not line.strip(opener[0])


def _fenced(opener: re.Match[str], body: list[str]) -> list[str]:
    """A code block that is one wherever it stands.

    Its fence is longer than any run of backticks in it. All its lines are indented as the first, so that it
    stays in a list's item, and where that indentation itself makes code, it is code completely.
    """
    indent = " " * len(opener[1].expandtabs(4))
    longest = max((len(run) for line in body for run in _BACKTICKS.findall(line)), default=0)
    fence = indent + "`" * max(3, longest + 1)
    language = _LANGUAGE.match(opener[3].strip())
    width = len(opener[1])
    lines = [indent + line[min(width, len(line) - len(line.lstrip())) :] for line in body]
    return [fence + (language[0] if language else ""), *lines, fence]


def _safe_prose(text: str) -> str:
    """Text outside of code blocks. A code span does not go beyond its paragraph."""
    out: list[str] = []
    begin = 0
    for blank in _BLANK_LINES.finditer(text):
        out += [*_safe_paragraph(text[begin : blank.start()]), blank[0]]
        begin = blank.end()
    return "".join([*out, *_safe_paragraph(text[begin:])])


def _safe_paragraph(text: str) -> list[str]:
    runs = [(found.start(), found.end()) for found in _BACKTICKS.finditer(text)]
    # The next run of the same length closes a span (CommonMark 0.31, 6.1).
    # Searched from the end, so that this is linear.
    closer: dict[int, int] = {}
    next_equal: list[int] = [0] * len(runs)
    for index in range(len(runs) - 1, -1, -1):
        length = runs[index][1] - runs[index][0]
        next_equal[index] = closer.get(length, -1)
        closer[length] = index
    out: list[str] = []
    at = index = 0
    while index < len(runs):
        other = next_equal[index]
        if other < 0:
            index += 1
            continue
        out += [_UNSAFE.sub(_as_text, text[at : runs[index][0]])]
        out += [code_span(text[runs[index][1] : runs[other][0]])]
        at, index = runs[other][1], other + 1
    return [*out, _UNSAFE.sub(_as_text, text[at:])]


def _as_text(found: re.Match[str]) -> str:
    match found[0]:
        case "![":
            return "&#33;["
        case "&":
            return "&amp;"
        case "~~~":
            return "&#126;" * 3
        case "\\":
            return ""
        case "<" | "\\<":
            return "&lt;"
        case "`" | "\\`":
            return "&#96;"
        case scheme:
            # A zero-width space: a reader sees the same word, and no renderer a scheme.
            return f"{scheme}\u200b"
