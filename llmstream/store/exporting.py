"""Conversations as documents: Markdown, JSON, JSON lines for training, and HTML in one file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from html import escape
from typing import Final, Literal, TypeAlias, get_args

import msgspec

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
)
from llmstream.chats.message import Message, Role
from llmstream.chats.openai_form import to_openai
from llmstream.chats.saved import message_to_json
from llmstream.chats.transcript import notebook_transcript
from llmstream.errors import InvalidRequest
from llmstream.short_forms import counted
from llmstream.store.conversations import ConversationInfo
from llmstream.store.store import Store

__all__ = ["FORMATS", "Format", "exported"]

Format: TypeAlias = Literal["md", "json", "jsonl", "html"]
FORMATS: Final[tuple[str, ...]] = get_args(Format)


def exported(store: Store, names: Iterable[str], form: Format) -> Iterator[str]:
    """The document in pieces, so that no store is too large for it.

    md:     for people, each conversation below its title
    json:   a list of conversations with messages in the saved form of chats, and with their turns
    jsonl:  a line for each conversation, `{"messages": [...]}` in OpenAI's form, as for fine-tuning
    html:   one file without scripts, which loads nothing
    raises: InvalidRequest for another form; StoreError for an unknown name
    """
    match form:
        case "md":
            yield from _markdown(store, names)
        case "json":
            yield from _json(store, names)
        case "jsonl":
            for name in names:
                yield (
                    json.dumps({"messages": to_openai(store.chat(name).messages())}, ensure_ascii=False)
                    + "\n"
                )
        case "html":
            yield from _html(store, names)
        case _:
            raise InvalidRequest(f"a format is {', '.join(FORMATS)}; got {form!r}")


def _markdown(store: Store, names: Iterable[str]) -> Iterator[str]:
    for at, name in enumerate(names):
        info = store.info(name)
        rule = "\n---\n\n" if at else ""
        # A title is one line, and a tag in it would be HTML in Markdown.
        title = " ".join((info.title or info.id).split()).replace("<", "&lt;")
        yield f"{rule}# {title}\n\n{_about(info)}\n\n{notebook_transcript(store.chat(name))}\n"


def _json(store: Store, names: Iterable[str]) -> Iterator[str]:
    yield "["
    for at, name in enumerate(names):
        info = msgspec.to_builtins(store.info(name))
        messages = [json.loads(message_to_json(message)) for message in store.chat(name)]
        info |= {"messages": messages, "turns": msgspec.to_builtins(store.turns(name))}
        yield f"{',' if at else ''}\n{json.dumps(info, ensure_ascii=False)}"
    yield "\n]\n"


def _about(info: ConversationInfo) -> str:
    day = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.created))
    facts = [day, info.model, counted(info.messages, "message"), ", ".join(info.tags)]
    return " · ".join(filter(None, facts))


# HTML: everything from the conversation is escaped, and the policy forbids scripts and requests.

_HEAD: Final = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src
data:"> <meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
:root {{ --ink: #1c1e21; --faint: #5c636a; --page: #fff; --box: #f3f4f6; --line: #d9dce0; --user: #e8f0fe }}
@media (prefers-color-scheme: dark) {{
:root {{ --ink: #e4e6e8; --faint: #a0a7ae; --page: #16181b; --box: #212428; --line: #3a3f45; --user: #1f2d44
}} }}
body {{ font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page);
  max-width: 46rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; overflow-wrap: anywhere }}
h1 {{ font-size: 1.35rem; line-height: 1.3; margin: 2.5rem 0 .25rem }}
.about, .who {{ color: var(--faint); font-size: .85rem }}
.message {{ margin: 1.25rem 0 }}
.user .parts {{ background: var(--user); border-radius: .6rem; padding: .6rem .9rem }}
.text {{ white-space: pre-wrap }}
pre {{ background: var(--box); border-radius: .4rem; padding: .7rem .9rem; overflow-x: auto;
  font: .85rem/1.45 ui-monospace, monospace; margin: .6rem 0 }}
details {{ border: 1px solid var(--line); border-radius: .4rem; padding: .35rem .8rem; margin: .5rem 0 }}
summary {{ cursor: pointer; color: var(--faint); font-size: .9rem }}
.failed summary {{ color: #c62828 }}
@media (prefers-color-scheme: dark) {{ .failed summary {{ color: #ff8a80 }} }}
img {{ max-width: 100%; border-radius: .4rem }}
nav ol {{ padding-left: 1.3rem }}
a {{ color: inherit }}
</style>
"""

# Not SVG: it may have scripts.
_PICTURES: Final = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def _html(store: Store, names: Iterable[str]) -> Iterator[str]:
    infos = [store.info(name) for name in names]
    title = infos[0].title or infos[0].id if len(infos) == 1 else f"{len(infos)} conversations"
    yield _HEAD.format(title=escape(title))
    if len(infos) > 1:
        links = [
            f'<li><a href="#c{at}">{escape(info.title or info.id)}</a></li>' for at, info in enumerate(infos)
        ]
        yield f"<h1>{escape(title)}</h1>\n<nav><ol>\n" + "\n".join(links) + "\n</ol></nav>\n"
    for at, info in enumerate(infos):
        yield f'<article id="c{at}">\n<h1>{escape(info.title or info.id)}</h1>\n'
        yield f'<p class="about">{escape(_about(info))}</p>\n'
        for message in store.chat(info.id):
            yield _message(message)
        yield "</article>\n"


def _message(message: Message) -> str:
    role = message.role if Role.valid(message.role) else "other"
    who = escape(message.sender or str(message.role).capitalize())
    parts = "\n".join(map(_part, message.parts))
    head = f'<section class="message {role}"><div class="who">{who}</div>'
    return f'{head}<div class="parts">{parts}</div></section>\n'


def _part(part: Part) -> str:
    match part:
        case Text(text):
            return _text(text)
        case Reasoning(text):
            return _folded("Reasoning", _text(text)) if text else ""
        case ToolCall():
            return _folded(f"Call: {part.name}", f"<pre>{escape(_pretty(part.arguments))}</pre>")
        case ToolResult():
            inner = f"<pre>{escape(_pretty(part.content))}</pre>" + "".join(map(_part, part.parts))
            label = f"{'Failed' if part.is_error else 'Result'}: {part.name or part.tool_call_id}"
            return _folded(label, inner, "failed" if part.is_error else "")
        case Image() | Audio() | Document() | File():
            return _file(part)
        case Source():
            return f'<div class="about">Source: {escape(part.title or part.url or part.filename)}</div>'
    return f'<div class="about">({escape(part.part_kind)})</div>'


def _text(text: str) -> str:
    """Text with its fenced code as blocks; other Markdown is unchanged."""
    found: list[str] = []
    # Odd pieces are code: an incomplete answer may end in an open fence.
    for at, piece in enumerate(text.split("```")):
        if at % 2 == 0:
            found.append(f'<div class="text">{escape(piece.strip(chr(10)))}</div>' if piece.strip() else "")
        else:
            language, _, code = piece.partition("\n")
            found.append(f"<pre><code>{escape((code or language).rstrip())}</code></pre>")
    return "".join(found)


def _folded(label: str, inner: str, kind: str = "") -> str:
    return f'<details class="{kind}"><summary>{escape(label)}</summary>{inner}</details>'


def _file(part: Image | Audio | Document | File) -> str:
    name = part.filename if isinstance(part, Document) else ""
    if part.data and part.media_type in _PICTURES:
        return f'<img alt="attached image" src="{escape(data_url(part.data, part.media_type))}">'
    size = f"{len(part.data):,} bytes" if part.data else part.url
    return f'<div class="about">File: {escape(" · ".join(filter(None, [name, part.media_type, size])))}</div>'


def _pretty(text: str) -> str:
    """JSON with indentation; other text as it is."""
    try:
        # Re-encoded before formatting, so that escaped letters are readable.
        value = msgspec.json.encode(msgspec.json.decode(text))
        return msgspec.json.format(value, indent=2).decode()
    except (ValueError, RecursionError):
        # A model may escape half of a surrogate pair, and a tool's result be nested past the stack.
        return text
