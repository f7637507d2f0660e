"""Rules of the source text that the linter does not know."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import llmstream

PACKAGE = Path(llmstream.__file__).parent


def explained_below(source: str) -> Iterator[str]:
    """Private names of modules and classes that a string literal below them explains."""
    scopes: list[ast.Module | ast.ClassDef] = [ast.parse(source)]
    for scope in scopes:
        scopes += [node for node in scope.body if isinstance(node, ast.ClassDef)]
        for node, below in zip(scope.body, scope.body[1:], strict=False):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if not is_text or not isinstance(node, ast.Assign | ast.AnnAssign):
                continue
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            named = [name.id for one in targets for name in ast.walk(one) if isinstance(name, ast.Name)]
            if named and all(name.startswith("_") for name in named):
                yield f"line {below.lineno}: explain {', '.join(named)} in a comment above"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("_A = 1\n'why'", ["line 2: explain _A in a comment above"]),
        ("class A:\n    _b, _c = 1, 2\n    'why'", ["line 3: explain _b, _c in a comment above"]),
        ("A: int = 1\n'shown in the documentation'", []),
        ("# why\n_A: int = 1\n_B = 2", []),
    ],
)
def test_string_below_a_private_name(source: str, found: list[str]) -> None:
    assert list(explained_below(source)) == found


@pytest.mark.slow
def test_private_names_have_comments() -> None:
    """A string below a name is for the documentation site, which shows public names only."""
    texts = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(texts) > 300
    assert [f"{path}: {found}" for path, text in texts.items() for found in explained_below(text)] == []


# Everyday words where the field has a term: repeat, stored, reported, repaired, in progress, continue,
# "takes precedence", "cannot be undone", "is not a".
IDIOMS = re.compile(
    r"\b(anew|kept|told|mended|under way|goes on|gone on|for good|wins over|nobody)\b"
    r"|(?<![Tt]here )\bis no (?!longer)\b"
)
# Programs in a string, whose words are keywords and columns.
_PROGRAM = re.compile(r"\b(local|redis\.call|select|insert|update)\b")
# What a simulated model or vendor says is text, no message of ours; names and notes of models are quoted.
_QUOTED = ("server_side/wires/", "simulator/demo.py", "web/demo.py", "model_rules/")


def idioms_in(source: str) -> Iterator[str]:
    """Idioms in the heading of a module and in the strings of its code."""
    tree = ast.parse(source)
    docstrings = {
        id(scope.body[0].value)
        for scope in ast.walk(tree)
        if isinstance(scope, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and scope.body
        and isinstance(scope.body[0], ast.Expr)
    }
    heading = (ast.get_docstring(tree) or "").partition("\n")[0]
    for found in IDIOMS.finditer(heading):
        yield f"line 1: {found.group()!r}"
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        # One word alone is a key, a tag or a name of the wire.
        if " " not in node.value.strip() or _PROGRAM.search(node.value):
            continue
        for found in IDIOMS.finditer(node.value):
            yield f"line {node.lineno}: {found.group()!r}"


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('"""Rows that are kept.\n\nAnd told."""', ["line 1: 'kept'"]),
        ('raise ValueError(f"{a} is no name")', ["line 1: 'is no '"]),
        ('a = "there is no name; it is no longer known"', []),
        ('a = "kept"', []),
        ('a = "select kept from rows"', []),
        ('def f():\n    """Whom nobody told."""\n    return "ask anew"', ["line 3: 'anew'"]),
    ],
)
def test_idiom_in_a_message(source: str, found: list[str]) -> None:
    assert list(idioms_in(source)) == found


def test_messages_have_the_terms_of_the_field() -> None:
    texts = {
        path.relative_to(PACKAGE).as_posix(): path.read_text(encoding="utf-8")
        for path in PACKAGE.rglob("*.py")
    }
    ours = {path: text for path, text in texts.items() if not path.startswith(_QUOTED)}
    assert len(ours) > 300
    assert [f"{path}: {found}" for path, text in ours.items() for found in idioms_in(text)] == []
