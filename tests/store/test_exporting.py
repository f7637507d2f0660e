"""Exports: values that a document has to show although they are no JSON."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats.content import ToolCall, ToolResult
from llmstream.store.exporting import exported


@pytest.mark.parametrize("text", ['{"a":"\\ud800"}', "[" * 200_000])
def test_values_that_are_no_json_are_text(store, text):
    chat = store.chat("trip")
    chat.append(ls.Message.assistant(ToolCall("c1", "fetch", text)))
    chat.append(ls.Message.tool([ToolResult("c1", text, name="fetch")]))
    page = "".join(exported(store, ["trip"], "html"))
    assert page.encode().count(text.replace('"', "&quot;").encode()) == 2


def test_messages_are_counted_in_english(store):
    store.chat("trip").append(ls.Message.user("Hi"))
    assert " · 1 message\n" in "".join(exported(store, ["trip"], "md"))


def test_arguments_are_laid_out_as_json(store):
    call = ToolCall("c1", "fetch", '{"city":"T\\u00f8nsberg","n":1}')
    store.chat("trip").append(ls.Message.assistant(call))
    page = "".join(exported(store, ["trip"], "html"))
    assert "{\n  &quot;city&quot;: &quot;Tønsberg&quot;,\n  &quot;n&quot;: 1\n}" in page
