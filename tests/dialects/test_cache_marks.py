from __future__ import annotations

from llmstream.dialects.history_parts import keep_last_marks
from llmstream.events import Warning


def marked(count: int) -> list[object]:
    return [
        "words",
        *({"text": str(place), "cache_control": {}} for place in range(count)),
        {"text": "plain"},
    ]


def test_four_marks_stay() -> None:
    warnings: list[Warning] = []
    blocks = marked(4)
    keep_last_marks(blocks, warnings)
    assert (blocks, warnings) == (marked(4), [])


def test_only_the_last_four_marks_stay() -> None:
    """The others are warned of."""
    warnings: list[Warning] = []
    blocks = marked(6)
    keep_last_marks(blocks, warnings)
    left = [block["text"] for block in blocks if isinstance(block, dict) and "cache_control" in block]
    assert left == ["2", "3", "4", "5"]
    assert len(warnings) == 1
