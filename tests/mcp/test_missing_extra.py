"""Without the package, what is missing is said."""

from __future__ import annotations

import sys

import pytest

import llmstream as ls
from llmstream.mcp import mcp_tools


async def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(ls.Unsupported, match=r"pip install 'llmstream-sdk\[mcp\]'"):
        async with mcp_tools(stdio=("x",)):
            pass
