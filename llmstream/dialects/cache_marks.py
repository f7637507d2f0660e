"""Marks of the prompt cache, of which vendors take four in a request and refuse a fifth.

source: "Prompt caching" in the documents of Anthropic, Amazon Bedrock and Alibaba Cloud
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from llmstream.events import OtherWarning, Warning

__all__ = ["MOST_MARKS", "keep_last_marks", "too_many_marks"]

MOST_MARKS: Final = 4


def keep_last_marks(blocks: Iterable[Any], warnings: list[Warning], name: str = "cache_control") -> None:
    """Takes the mark off all but the last four blocks that have one: these hold the longest prompts.

    blocks: in the order of the prompt, those within results of tools as well
    """
    marked = [block for block in blocks if isinstance(block, dict) and name in block]
    for block in marked[:-MOST_MARKS]:
        del block[name]
    if len(marked) > MOST_MARKS:
        warnings.append(too_many_marks(len(marked)))


def too_many_marks(count: int) -> Warning:
    """What is said of marks that were left out."""
    words = f"only the last {MOST_MARKS} of {count} cache marks were sent: the API takes no more"
    return OtherWarning(words)
