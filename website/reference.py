"""Writes the reference: a page for each group of public names, from signatures and docstrings."""

from __future__ import annotations

import importlib
import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import griffe

from website.docstrings import Docstring, read
from website.pages import write_pages
from website.plan import GLOSSARY, INTERNAL, MADE_BY_US, PAGES, Page

__all__ = ["write"]

ROOT = Path(__file__).resolve().parents[1]
WIDTH = 88
"""Columns of a signature; longer ones have a line for each parameter."""

QUOTES = "'\""
STARS = {"variadic positional": "*", "variadic keyword": "**"}
OPTIONS = "the [options](options.md#Options)"
# Stands below the title: what is above it, the search would list as a page of its own.
_HEADER = "<!-- Made by website/reference.py from docstrings; do not edit. -->"


class Named(NamedTuple):
    """A public name and what it stands for."""

    name: str
    thing: Any


class Reference:
    """The package as it is documented."""

    def __init__(self) -> None:
        self.package = griffe.load("llmstream", search_paths=[str(ROOT)], resolve_aliases=True)
        self._taken: set[str] = set()
        self.pages = {page.file: list(self._named(page)) for page in PAGES}
        self.links = self._links()

    def find(self, path: str) -> Any:
        """What a dotted name within the package stands for."""
        found = self.package
        for part in path.split("."):
            found = found[part]
            while found.is_alias:
                found = found.final_target
        return self._imported(path) if found.is_module else found

    def _imported(self, path: str) -> Any:
        """What Python finds, if a module has the same name: the function `ls.tool`, beside tools/tool.py."""
        module, _, name = f"llmstream.{path}".rpartition(".")
        thing = getattr(importlib.import_module(module), name, ModuleType(name))
        if isinstance(thing, ModuleType):  # a module after all
            return self.package[path]
        return self.package[f"{thing.__module__}.{thing.__qualname__}".removeprefix("llmstream.")]

    def _named(self, page: Page) -> Iterator[Named]:
        """The names of a page; what an earlier name stands for is not described again."""
        for pattern in page.names.split():
            for name in self._expanded(pattern):
                thing = self.find(name)
                if thing.is_module:
                    raise ValueError(f"{name} is a module; name what is in it in website/plan.py")
                if thing.path in self._taken:
                    continue
                self._taken.add(thing.path)
                yield Named(thing.name if self._is_exported(thing) else name, thing)

    def _is_exported(self, thing: Any) -> bool:
        """Whether it is an attribute of the package itself, such as ls.TextDelta."""
        return thing.name in map(str, self.package.exports or ()) and self.find(thing.name) is thing

    def _expanded(self, pattern: str) -> Iterable[str]:
        module, star, _ = pattern.partition(".*")
        if not star:
            return [pattern]
        names = self.find(module).exports or []
        return [f"{module}.{name}" for name in map(str, names)]

    def _links(self) -> dict[str, str]:
        """The address of each name, by the ways in which docstrings write it, and by its full path."""
        links: dict[str, str] = {}
        for file, entries in self.pages.items():
            for name, thing in entries:
                links[name] = links[thing.path] = f"{file}#{name}"
                links.setdefault(thing.name, links[name])
                for member, _ in members_of(thing, name):
                    links.setdefault(f"{thing.name}.{member}", f"{file}#{name}.{member}")
        for entries in self.pages.values():  # a name of the package itself has precedence: ls.ToolCall
            for name, thing in entries:
                if "." not in name:
                    links[thing.name] = links[name]
        return links

    # Markdown

    def page(self, page: Page) -> str:
        """A page of the reference."""
        parts = [f"# {page.title}", _HEADER, page.intro]
        for options in page.options:
            parts += self._options(options)
        for name, thing in self.pages[page.file]:
            parts += self._entry(name, thing)
        return "\n\n".join(parts) + "\n"

    def index(self) -> str:
        """The list of all names, with the first sentence of each."""
        parts = [
            "# Reference",
            _HEADER,
            "Every public name. Those without a dot are attributes of the package: `import llmstream as ls`, "
            "then `ls.stream`. The others are in its modules: `llmstream.agent.cost_over`. Names are loaded "
            "when they are first used, so `import llmstream` is cheap.",
        ]
        for page in PAGES:
            rows = ["| name | |", "| --- | --- |"]
            for name, thing in self.pages[page.file]:
                summary = sentence(read(docstring_of(thing)).summary)
                rows.append(f"| [`{name}`]({page.file}#{name}) | {self._prose(summary)} |")
            parts += [f"## [{page.title}]({page.file})", "\n".join(rows)]
        return "\n\n".join(parts) + "\n"

    def _options(self, path: str) -> Iterator[str]:
        thing = self.find(path)
        name = thing.name
        doc = read(docstring_of(thing))
        yield f"## `{name}` {{ #{name} }}"
        yield self._prose(doc.summary) + " None is the same as leaving an option out."
        rows = []
        for field, documented in typed_dict_fields(thing):
            text, default = documented.default(field.name)
            rows.append((field.name, field.annotation, self._prose(default), text.rstrip(".")))
        yield self._table(rows)

    def _entry(self, name: str, thing: Any, *, level: int = 2) -> Iterator[str]:
        doc = read(docstring_of(thing))
        yield f"{'#' * level} `{without_module(name)}` {{ #{name} }}"
        yield fenced(signature_of(thing, name, made_by_us=name in MADE_BY_US))
        if doc.summary:
            yield self._prose(doc.summary)
        yield from map(self._prose, doc.prose)
        yield from self._values(thing, doc, shown=name not in MADE_BY_US)
        if thing.is_class:
            for member, function in members_of(thing, name):
                yield from self._entry(f"{name}.{member}", function, level=level + 1)

    def _values(self, thing: Any, doc: Docstring, *, shown: bool) -> Iterator[str]:
        """Parameters or fields as a table, then what is raised, returned and so on."""
        rows, known = [], set()
        for name, annotation, default in self._expanded_parameters(thing) if shown else ():
            bare = name.lstrip("*")
            known.add(bare)
            text = OPTIONS if name == "**options" and not annotation else doc.items.get(bare, "")
            rows.append((name, annotation, code(default), text or GLOSSARY.get(bare, "")))
        if any(row[3] for row in rows) or (thing.is_class and rows):
            yield self._table(rows)
        rest = [(key, text) for key, text in doc.items.items() if key not in known]
        if rest:
            yield "\n".join(f"- **{key}:** {self._prose(text)}" for key, text in rest)
        overloads = getattr(function_of(thing), "overloads", None) or []
        if overloads:
            shown = "\n\n".join(format_signature(one, thing.name) for one in overloads)
            yield '??? note "Overloads"\n\n' + indented(fenced(shown))

    def _expanded_parameters(self, thing: Any) -> Iterator[tuple[str, Any, str]]:
        """The parameters; `**arguments: Unpack[Arguments]` as the keys of that TypedDict."""
        for name, annotation, default in parameters_of(thing):
            packed = re.fullmatch(r"Unpack\[(\w+)\]", str(annotation))
            if not packed:
                yield name, annotation, default
                continue
            keys = self._typed_dict(packed[1], thing)
            for field in keys:
                yield field.name, field.annotation, ""
            yield "**options", "", ""

    def _typed_dict(self, name: str, thing: Any) -> list[Any]:
        """The keys of a TypedDict itself, without those of its bases: these are on the page of options."""
        if name in ("StreamOptions", "CallOptions"):
            return []
        found = thing.module.members.get(name)
        while found is not None and found.is_alias:
            found = found.final_target
        return [one for one in found.members.values() if one.is_attribute] if found else []

    def _table(self, rows: Iterable[tuple[str, Any, str, str]]) -> str:
        """Defaults are Markdown: code, or words of a docstring. On phones `fields` has no columns."""
        lines = [
            '<div class="fields" markdown>',
            "",
            "| name | type | default | |",
            "| --- | --- | --- | --- |",
        ]
        for name, annotation, default, text in rows:
            lines.append(f"| `{name}` | {self._type(annotation)} | {default} | {self._prose(text)} |")
        return "\n".join([*lines, "", "</div>"])

    def _type(self, annotation: Any) -> str:
        """An annotation whose public names are links."""
        if not annotation:
            return ""
        if isinstance(annotation, str):
            return code(annotation)
        shown = []
        for piece in annotation.iterate(flat=True):
            path = getattr(piece, "canonical_path", "")
            address = self.links.get(self._home(path)) if path.startswith("llmstream.") else None
            shown.append(f"[{piece}]({address})" if address else escaped(str(piece)))
        return f"<code>{''.join(shown)}</code>"

    def _home(self, path: str) -> str:
        """Where a name is defined, by the path under which it was imported."""
        try:
            return str(self.find(path.removeprefix("llmstream.")).path)
        except (KeyError, griffe.GriffeError):
            return path

    def _prose(self, text: str) -> str:
        """Docstring text as Markdown: code that is a public name becomes a link."""

        def link(match: re.Match[str]) -> str:
            return self._linked(match[1].removeprefix("ls.").removesuffix("()"), f"`{match[1]}`") or match[0]

        lines = text.splitlines()
        if text and all(line.startswith("    ") or not line for line in lines):
            return fenced(textwrap.dedent(text))
        if any(line.startswith(("- ", "* ", "    ")) for line in lines):
            return text  # a list, as it is
        return re.sub(r"(?<!\[)`([\w.]+(?:\(\))?)`", link, " ".join(lines))

    def _linked(self, name: str, shown: str) -> str | None:
        address = self.links.get(name)
        return f"[{shown}]({address})" if address else None


def write(folder: Path) -> None:
    """Writes all pages to a folder, and removes others."""
    reference = Reference()
    texts = {page.file: reference.page(page) for page in PAGES}
    write_pages(folder, {**texts, "index.md": reference.index()}, order=["index.md", *texts])


# What griffe found


def docstring_of(thing: Any) -> str | None:
    return thing.docstring.value if thing.docstring else None


def sentence(text: str) -> str:
    """The first sentence of a paragraph."""
    return re.split(r"(?<=[.!?])\s(?=[A-Z`])", " ".join(text.splitlines()))[0]


def without_module(name: str) -> str:
    """`ToolOutcome.failed` for `tools.ToolOutcome.failed`.

    The search prefers titles: with the module, "tools" would find each member before the guide.
    """
    parts = name.split(".")
    first = next((i for i, part in enumerate(parts) if not part.islower()), len(parts) - 1)
    return ".".join(parts[first:])


def function_of(thing: Any) -> Any:
    """What is called by the name: a class's `__init__`, or the function itself."""
    return thing.members.get("__init__") if thing.is_class else thing


def is_struct(thing: Any) -> bool:
    """Whether a class is made of its annotated fields."""
    bases = {str(base).rsplit(".", 1)[-1] for one in with_bases(thing) for base in one.bases}
    return bool(bases & {"Struct", "NamedTuple"}) or "dataclass" in thing.labels


def members_of(thing: Any, shown: str) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, those of our own base classes included."""
    if not thing.is_class:
        return
    seen: set[str] = set()
    for one in with_bases(thing):
        for name, member in one.members.items():
            if name.startswith("_") or name in seen or member.is_alias or not docstring_of(member):
                continue
            if f"{shown}.{name}" in INTERNAL:
                continue
            if member.is_function or "property" in member.labels:
                seen.add(name)
                yield name, member


def parameters_of(thing: Any) -> Iterator[tuple[str, Any, str]]:
    """Name, type and default of each parameter or field."""
    if thing.is_class and is_struct(thing):
        yield from fields_of(thing)
        return
    function = function_of(thing)
    for one in getattr(function, "parameters", None) or ():
        if one.name in ("self", "cls") or (one.name.startswith("_") and one.default is not None):
            continue
        stars = STARS.get(kind_of(one), "")
        yield stars + one.name, one.annotation or "", "" if stars else default_of(one, function)


def default_of(parameter: Any, function: Any) -> str:
    """The default, a constant of the module as its value: 20 for MAX_STEPS."""
    written = str(parameter.default or "")
    if not written.isupper():
        return written
    constant = function.module.members.get(written)
    while constant is not None and constant.is_alias:
        constant = constant.final_target
    return written if constant is None or constant.value is None else str(constant.value)


def wrapped(value: str) -> str:
    """A union on a line for each member, if it is too long for one."""
    if len(value) <= WIDTH or " | " not in value:
        return value
    return "(\n    " + "\n    | ".join(value.split(" | ")) + "\n)"


def kind_of(parameter: Any) -> str:
    return parameter.kind.value if parameter.kind else ""


def fields_of(thing: Any) -> Iterator[tuple[str, Any, str]]:
    """The fields of a Struct, its own first."""
    seen: set[str] = set()
    for one in with_bases(thing):
        for name, member in one.members.items():
            if member.is_alias or not member.is_attribute or "property" in member.labels:
                continue
            annotation = str(member.annotation or "ClassVar")
            if name.startswith("_") or name in seen or "ClassVar" in annotation:
                continue
            seen.add(name)
            value = str(member.value) if member.value is not None else ""
            yield name, member.annotation, field_default(value)


def field_default(value: str) -> str:
    """The default of a field; of `field(default_factory=dict, repr=False)` what the factory makes."""
    found = re.search(r"field\(default(_factory)?=(lambda: )?(.+?)(?:, \w+=.*)?\)$", value)
    if not found:
        return value
    return f"{found[3]}()" if found[1] and not found[2] else found[3]


def typed_dict_fields(thing: Any) -> Iterator[tuple[Any, Docstring]]:
    """The keys of a TypedDict and of those it is made of, each with the docstring that describes it."""
    seen: set[str] = set()
    for one in with_bases(thing):
        doc = read(docstring_of(one))
        for member in one.members.values():
            if member.is_attribute and member.annotation and member.name not in seen:
                seen.add(member.name)
                yield member, doc


def with_bases(thing: Any) -> Iterator[Any]:
    """A class and those of the package that it is made of. griffe has no MRO where a base is not loaded."""
    yield thing
    for base in thing.bases:
        path = getattr(base, "canonical_path", str(base))
        if path.startswith("llmstream."):
            yield from with_bases(thing.package[path.removeprefix("llmstream.")])


def signature_of(thing: Any, name: str, *, made_by_us: bool = False) -> str:
    """How a thing is called or what it is, as Python."""
    if thing.is_attribute:
        if "property" in thing.labels:
            return f"{name}: {thing.annotation}"
        return name if thing.value is None else f"{name} = {wrapped(str(thing.value).strip(QUOTES))}"
    if not thing.is_class:
        return format_signature(thing, name)
    bases = ", ".join(map(str, thing.bases))
    head = f"class {name}({bases})" if bases else f"class {name}"
    if made_by_us or is_struct(thing) or function_of(thing) is None or len(function_of(thing).parameters) < 2:
        return head
    return f"{head}\n\n{format_signature(function_of(thing), name, returns=False)}"


def format_signature(function: Any, name: str, *, returns: bool = True) -> str:
    """A signature on one line if it is short, else with a line for each parameter."""
    parts, marked = [], False
    for one in function.parameters:
        kind = kind_of(one)
        if one.name in ("self", "cls") and not parts:
            continue
        if kind == "keyword-only" and not marked:
            parts.append("*")
            marked = True
        stars = STARS.get(kind, "")
        marked = marked or stars == "*"
        text = stars + one.name + (f": {one.annotation}" if one.annotation else "")
        if one.default is not None and not stars:
            text += f" = {default_of(one, function)}"
        parts.append(text)
    prefix = "async " if "async" in function.labels else ""
    head = f"{prefix}{name}("
    tail = f") -> {function.returns}" if returns and function.returns else ")"
    line = head + ", ".join(parts) + tail
    if len(line) <= WIDTH or not parts:
        return line
    return head + "\n    " + ",\n    ".join(parts) + ",\n" + tail


# Markdown


def fenced(text: str) -> str:
    return f"```python\n{text}\n```"


def indented(text: str) -> str:
    return "\n".join("    " + line if line else "" for line in text.splitlines())


def code(text: str) -> str:
    """Code in a cell of a table, or nothing."""
    return f"<code>{escaped(text)}</code>" if text else ""


def escaped(text: str) -> str:
    """Text that means nothing to Markdown, in a cell of a table."""
    return re.sub(r"[][|*_<>`\\]", lambda match: f"&#{ord(match[0])};", text)
