"""Prompt templates: columns in two braces, everything else is text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.errors import InvalidRequest
from llmstream.mapping.row import Template

ROW = {"id": 7, "text": "Grüße {{id}} {x}", "user": {"name": "Ada"}, "tags": ["a", "ä"], "no": None, "a b": 1}


@pytest.mark.parametrize(
    ("template", "prompt"),
    [
        ("Say {{text}}!", "Say Grüße {{id}} {x}!"),
        ("{{ id }}{{id}}", "77"),
        ("{{user.name}} {{tags}} [{{no}}] {{a b}}", 'Ada ["a","ä"] [] 1'),
        ("{{user}}", '{"name":"Ada"}'),
        ('Answer {"score": {{id}}} or {}', 'Answer {"score": 7} or {}'),
        ("for (;;) { if (x) { y } } {{id}}", "for (;;) { if (x) { y } } 7"),
        ('{{"{{id}}"}} is {{id}}', "{{id}} is 7"),
        ('{{"{{"}}', "{{"),
        ("{{{id}}}", "{7}"),
        ("{{ }} and {{}}", "{{ }} and {{}}"),
    ],
)
def test_only_double_braces_are_filled(template: str, prompt: str):
    assert Template(template).fill(ROW) == prompt


@given(st.text(alphabet=st.characters(exclude_characters="{}")), st.text())
def test_text_and_values_come_through(text: str, value: str):
    assert Template(f"{text}{{{{x}}}}{text}").fill({"x": value}) == f"{text}{value}{text}"


def test_missing_column_is_suggested():
    with pytest.raises(InvalidRequest, match=r"no column 'txt'\. Did you mean \{\{text\}\}\?"):
        Template("{{txt}}").fill({"text": "a", "id": 1})
    with pytest.raises(InvalidRequest, match=r"no column 'review'\. It has: a, b\."):
        Template("{{review}}").fill({"a": 1, "b": 2})
    with pytest.raises(InvalidRequest, match=r"no column 'user\.age'"):
        Template("{{user.age}}").fill(ROW)


def test_single_braces_are_refused():
    with pytest.raises(InvalidRequest, match=r"Write \{\{text\}\} to insert the column text"):
        Template("Say {text}").check(ROW)


@pytest.mark.parametrize("template", ["Say {text} {{id}}", "Say {other}", '{"text": 1}', "{ text }"])
def test_other_single_braces_are_text(template: str):
    Template(template).check(ROW)
    assert "{" in Template(template).fill(ROW)


def test_a_dotted_column_name_wins():
    assert Template("{{user.name}}").fill({"user.name": "flat", "user": {"name": "deep"}}) == "flat"


def test_a_bad_literal_is_refused():
    with pytest.raises(InvalidRequest, match="is not a JSON string"):
        Template(r'{{"\q"}}')
