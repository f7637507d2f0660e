"""Quirks in groups: what a change leaves alone, which of several wins, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    Quirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.dialects.openai_responses.quirks import Quirks as ResponsesQuirks
from llmstream.model_rules import changed, changes_for


def test_a_change_leaves_other_fields() -> None:
    quirks = Quirks(thinking=ThinkingQuirks(style="groq", always=True), system_role="system")
    new = changed(quirks, [change(ThinkingQuirks, style="effort"), change(MediaQuirks, files=False)])
    assert new.thinking == ThinkingQuirks(style="effort", always=True)
    assert (new.media, new.system_role) == (MediaQuirks(files=False), "system")
    assert changed(quirks, []) is quirks


def test_fields_outside_groups_change() -> None:
    group = ThinkingQuirks(on="adaptive")
    new = changed(Quirks(), [change(Quirks, path="/x", thinking=group), change(ThinkingQuirks, always=True)])
    assert (new.path, new.thinking) == ("/x", ThinkingQuirks(on="adaptive", always=True))


def test_later_rules_for_a_model_win() -> None:
    rules = (
        ModelQuirks("QWEN", change(ThinkingQuirks, style="thinking", on="auto")),
        ModelQuirks("qwen3", change(ThinkingQuirks, style="none")),
    )
    quirks = Quirks(by_model=rules)
    assert quirks.for_model("a/Qwen3-8b").thinking == ThinkingQuirks(style="none", on="auto")
    assert quirks.for_model("qwen2").thinking == ThinkingQuirks(style="thinking", on="auto")
    assert changes_for("llama", rules) == []


def test_a_models_own_rule_beats_the_tables() -> None:
    own = ModelQuirks("deepseek-r1", change(ThinkingQuirks, always=False))
    assert hosted().for_model("deepseek-r1").thinking.always
    assert not hosted(by_model=(own,)).for_model("deepseek-r1").thinking.always


def test_a_misspelt_field_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="styl"):
        change(ThinkingQuirks, styl="effort")  # type: ignore[call-arg]


@pytest.mark.parametrize("quirks", [hosted(), ResponsesQuirks(open_model_rules=True)])
def test_quirks_of_a_model_are_made_once(quirks: Any) -> None:
    assert quirks.for_model("deepseek-r1") is quirks.for_model("deepseek-r1")
    assert quirks.for_model("deepseek-r1") is not quirks.for_model("qwen3-8b")
