"""What the documents say is true: programs run, outputs match, transcripts decode, links lead somewhere.

The rules, by the word after a fence:

python      begins with an import: a whole program, which is run; else a fragment that has to compile.
            Both pass mypy's strict checks (a slow test)
output      what the program above prints; `...` stands for anything, on a line of its own for any lines
transcript-DIALECT  `wire` lines are fed, `events` lines are what has to come; `end` closes the body
sh          lines that begin with `llmstream` have to be valid commands
console     commands behind `$ ` and their output, which is compared for the simulator's models

Blocks with a title are one of several: tests/test_migrating.py and tests/test_recipes.py run them.
"""

from __future__ import annotations

import ast
import importlib
import logging
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, get_args

import pytest

import llmstream as ls
from llmstream import cli, grammar
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from website.pages import MADE
from website.plan import PAGES

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(path for path in (ROOT / "docs").rglob("*.md") if path.parent.name not in MADE),
    *sorted((ROOT / "llmstream").rglob("*.md")),
]
DIALECTS = {
    "openai-chat": (OpenAIChat(), "openai", "\n\n"),
    "anthropic": (Anthropic(), "anthropic", "\n\n"),
    "ollama": (Ollama(), "ollama", "\n"),
}
SOURCE = "https://github.com/llmstream-sdk/llmstream/"
"""Pages of the site link so to files that are not pages."""

COLUMN = 8
"""Where the second column of a transcript begins."""


class Block(NamedTuple):
    """A fenced block: where it stands, the words after its fence, and what it holds."""

    where: str
    kind: str
    argument: str
    text: str


def blocks_of(document: Path) -> Iterator[Block]:
    name = document.relative_to(ROOT).as_posix()
    kind, argument, first, lines = None, "", 0, list[str]()
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if not line.lstrip().startswith("```"):
            lines.append(line)
        elif kind is None:
            kind, _, argument = line.lstrip().removeprefix("```").partition(" ")
            first, lines = number, []
        else:  # in a tab the lines are indented
            yield Block(f"{name}:{first}", kind, argument, textwrap.dedent("\n".join(lines) + "\n"))
            kind = None
    assert kind is None, f"{name}:{first}: the fence is never closed"


BLOCKS = [block for document in DOCUMENTS for block in blocks_of(document)]
PYTHON = [block for block in BLOCKS if block.kind == "python" and not block.argument]
PROGRAMS = [
    (block, after.text if after is not None and after.kind == "output" else None)
    for block, after in zip(BLOCKS, [*BLOCKS[1:], None], strict=True)
    if block in PYTHON and block.text.startswith(("import ", "from "))
]


def by_place(value: object) -> str | None:
    return value.where if isinstance(value, Block) else ""


@pytest.mark.parametrize(("program", "output"), PROGRAMS, ids=by_place)
def test_programs_run_and_print_what_is_said(
    program: Block,
    output: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    logger = logging.getLogger("llmstream")
    monkeypatch.setattr(logger, "handlers", logger.handlers[:])
    monkeypatch.setattr(logger, "level", logger.level)
    code = compile(program.text, program.where, "exec")
    exec(code, {"__name__": "__main__"})
    if output is not None:
        printed = capsys.readouterr().out
        assert re.fullmatch(pattern_of(output), printed.rstrip("\n") + "\n", re.DOTALL), printed


def pattern_of(output: str) -> str:
    """Any lines for a line `...`, anything within a line for `...` elsewhere."""
    pieces = []
    for line in output.splitlines():
        if line == "...":
            pieces.append(r"(?:[^\n]*\n)*?")
        else:
            pieces.append(r"[^\n]*".join(map(re.escape, line.split("..."))) + r"\n")
    return "".join(pieces)


@pytest.mark.parametrize("block", PYTHON, ids=by_place)
def test_python_compiles_with_existing_names(block: Block) -> None:
    tree = compile(block.text, block.where, "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ls":
            assert hasattr(ls, node.attr), f"{block.where}: there is no llmstream.{node.attr}"


@pytest.mark.slow
def test_python_passes_strict_types(tmp_path: Path) -> None:
    """Of README and docs, in one run of mypy; CONTRIBUTING's modules of made-up vendors import each other."""
    pytest.importorskip("mypy")
    for block in PYTHON:
        if not block.where.startswith("CONTRIBUTING"):
            name = re.sub(r"\W", "_", block.where) + ".py"
            (tmp_path / name).write_text(block.text, encoding="utf-8")
    options = (
        "--strict",
        "--python-version=3.11",
        "--config-file=",
        f"--cache-dir={ROOT / '.mypy_cache' / 'docs'}",
    )
    command = (sys.executable, "-m", "mypy", *options, *map(str, sorted(tmp_path.iterdir())))
    environment = {**os.environ, "MYPYPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind.startswith("transcript-")], ids=by_place)
def test_transcripts_match_dialect_output(block: Block) -> None:
    dialect, provider, end = DIALECTS[block.kind.removeprefix("transcript-")]
    sentence = GuardedDecoder(dialect.decoder(provider=provider), provider=provider)
    events = sentence.start()
    shown = [f"events  {event!r}" for event in events]
    for line in block.text.splitlines():
        word, rest = line[:COLUMN].rstrip(), line[COLUMN:]
        if word not in ("wire", "end"):
            continue
        shown.append(line)
        came = sentence.feed((rest + end).encode()) if word == "wire" else sentence.close()
        events += came
        for position, event in enumerate(came):
            shown.append(f"{'' if position else 'events':<{COLUMN}}{event!r}")
    said = block.text.splitlines()
    assert said == shown, "\n".join(shown)
    assert sentence.done
    assert grammar.check(events) == []


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.kind == "sh"], ids=by_place)
def test_commands_are_valid(block: Block) -> None:
    for line in block.text.splitlines():
        for command in re.split(r"[|>;]", line.partition(" #")[0]):
            words = shlex.split(command)
            if words[:1] == ["llmstream"]:
                cli._parser(words[1:]).parse_args(words[1:])


def calls_of(block: Block) -> Iterator[tuple[list[str], str]]:
    """The calls of llmstream in a block of `console`, each with its output."""
    for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        line, _, output = part.partition("\n")
        words = shlex.split(line.rpartition("| ")[2].partition(" > ")[0])
        if words[:1] == ["llmstream"]:
            yield words[1:], output


CALLS = [(block.where, *call) for block in BLOCKS if block.kind == "console" for call in calls_of(block)]


@pytest.mark.parametrize(("where", "words", "output"), CALLS, ids=[" ".join(call[1]) for call in CALLS])
def test_console_shows_what_is_printed(where: str, words: list[str], output: str, tmp_path: Path) -> None:
    """Of a model of the simulator; other calls have to be valid."""
    cli._parser(words).parse_args(words)
    if not any(word.startswith("sim:") for word in words):
        return
    (tmp_path / "cities.txt").write_text("Oslo\nLima\n")
    program = [sys.executable, "-m", "llmstream", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "HOME": str(tmp_path)}
    done = subprocess.run(
        program,
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    printed = done.stderr + done.stdout
    assert re.fullmatch(pattern_of(output), printed, re.DOTALL), printed


def test_each_command_has_a_row() -> None:
    rows = {cells[0].strip("`").removeprefix("llmstream ") for cells in rows_of("command-line.md")}
    missing = [command for command in cli.COMMANDS if command not in rows]
    assert not missing, f"add rows to the first table of docs/command-line.md: {missing}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(document: Path) -> None:
    """Those to pages that are made lead to what they are made of; scripts/docs checks their anchors."""
    for target in re.findall(r"\]\(([^)\s]+)\)", document.read_text(encoding="utf-8")):
        ours = re.match(re.escape(SOURCE) + "(?:blob|tree)/main/", target)
        if re.match(r"[a-z]+:", target) and not ours:
            continue
        path, _, anchor = target.partition("#")
        place = (document.parent / path).resolve() if path else document
        if ours:
            place = ROOT / path.removeprefix(ours[0])
        if place.parent == ROOT / "docs" / "examples":
            assert place.name == "index.md" or (ROOT / "examples" / f"{place.stem}.py").exists(), target
            continue
        if place.parent == ROOT / "docs" / "reference":
            assert place.name in {"index.md", *(page.file for page in PAGES)}, f"{document.name}: {target}"
            continue
        assert place.exists(), f"{document.name}: {target} is not there"
        if anchor:
            assert anchor in anchors_of(place), f"{document.name}: {target} has no such heading"


def anchors_of(document: Path) -> set[str]:
    """The anchors that headings get: lower case, no punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def rows_of(name: str) -> Iterator[list[str]]:
    """The cells of every table row of a document."""
    for line in (ROOT / "docs" / name).read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| ---"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_public_name_is_in_the_reference() -> None:
    named = [name for page in PAGES for name in page.names.split()]
    missing = "\n".join(missing_in_reference(ls.__all__, named))
    assert not missing, f"edit PAGES in website/plan.py:\n{missing}"
    gone = [name for name in named if not hasattr_path(name)]
    assert not gone, f"remove from PAGES in website/plan.py: {gone}"


def missing_in_reference(public: Iterable[str], named: Sequence[str]) -> Iterator[str]:
    """What to do about each name of the package that no page names; "agent.*" stands for the module, too."""
    covered = {*named, *(name.partition(".")[0] for name in named)}
    for module in (ls.events, ls.errors):  # the package exports some of their names
        covered |= set(module.__all__) if f"{module.__name__.partition('.')[2]}.*" in covered else set()
    for name in sorted(set(public) - covered):
        if isinstance(getattr(ls, name, None), ModuleType):
            yield f"ls.{name}: add '{name}.*' to the names of a Page, or add a Page; it needs an __all__"
        else:
            yield f"ls.{name}: add it to the names of the Page where readers look for it, or add a Page"


def test_a_missing_name_is_explained() -> None:
    public, named = ["stream", "TextDelta", "chats"], ["stream", "events.*", "chats.Image"]
    assert list(missing_in_reference(public, named)) == []
    module, name = missing_in_reference(["stream", "chats"], ["Model"])
    assert name == "ls.stream: add it to the names of the Page where readers look for it, or add a Page"
    assert module.startswith("ls.chats: add 'chats.*' to the names of a Page")


PROBLEMS = """
    streaming, structured output, tools, function calling, agents, human approval, conversations, errors,
    retries, timeouts, rate limits, fallbacks, caching, prompt caching, cost, token usage, observability,
    logging, testing, multimodal input, reasoning, middleware, MCP, context window, crash recovery, proxies,
    keys, web servers, sync code, migrating
"""
"""What people search for; the search of the site prefers headings."""


@pytest.mark.parametrize("problem", PROBLEMS.replace("\n", " ").split(","), ids=str.strip)
def test_a_problem_is_in_a_heading(problem: str) -> None:
    """Of a guide, a recipe or a page about migrating."""
    folders = ("guides", "recipes", "migrating")
    pages = [page for folder in folders for page in sorted((ROOT / "docs" / folder).glob("*.md"))]
    headings = [
        line for page in pages for line in page.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    ]
    assert any(problem.strip().lower() in heading.lower() for heading in headings), (
        "name a page or section so"
    )


def hasattr_path(name: str) -> bool:
    """Whether a dotted name is in the package; of "agent.*", whether the module has an `__all__`."""
    *modules, last = name.split(".")
    home = importlib.import_module(".".join(["llmstream", *modules]))
    return hasattr(home, "__all__" if last == "*" else last)


def test_public_names_found_where_they_live() -> None:
    assert sorted(ls.__all__) == sorted([*ls._SUBMODULES, *ls._HOME])
    for name in ls.__all__:
        assert getattr(ls, name) is not None


def test_event_row_has_its_tag_and_fields() -> None:
    rows = {cells[0].strip("`"): cells[1:] for cells in rows_of("events.md")}
    for event in get_args(ls.Event):
        tag = event.__struct_config__.tag
        assert tag in rows, f"no row for {tag}"
        name, fields = rows[tag][0], re.findall(r"`(\w+)`", rows[tag][1])
        assert name.strip("`").rpartition(".")[2] == event.__name__
        own = [field for field in event.__struct_fields__ if field != "provider_metadata"]
        assert fields == own, f"{tag} has the fields {own}"
        assert rows[tag][2], f"no guarantee for {tag}"


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_paths_named_for_contributors_exist(name: str) -> None:
    """Paths begin at the root or in llmstream/; those with <...> or of the made-up vendors are examples."""
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"[\w./<>*-]+\.py\b|(?<=`)[\w./<>*-]+/(?=`)", text)
    real = [path for path in paths if "<" not in path and not re.search(r"acme|parrot", path)]
    assert real
    homes = (ROOT, ROOT / "llmstream")
    assert [path for path in real if not any((home / path).exists() for home in homes)] == []


def test_picture_and_program_come_first() -> None:
    top = "\n".join((ROOT / "README.md").read_text(encoding="utf-8").splitlines()[:40])
    pictures = re.findall(r'(?:src|srcset)="([^"]+)"', top)
    assert len(pictures) == 2, "one for dark pages, one for light ones"
    assert all((ROOT / picture).stat().st_size for picture in pictures)
    assert re.search(r"```python\n.*?```\n\n```output\n", top, re.DOTALL)
