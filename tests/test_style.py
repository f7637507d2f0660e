"""Rules of the source text that the linter does not know."""

from __future__ import annotations

import ast
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


def test_private_names_have_comments() -> None:
    """A string below a name is for the documentation site, which shows public names only."""
    texts = {path.relative_to(PACKAGE): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    assert len(texts) > 300
    assert [f"{path}: {found}" for path, text in texts.items() for found in explained_below(text)] == []
