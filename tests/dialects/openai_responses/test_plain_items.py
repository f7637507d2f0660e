"""Items for servers that refuse what only OpenAI knows."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_responses.content import plain_items
from llmstream.errors import Unsupported

CALL = {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"}


def plain(*items):
    said: list[str] = []
    return plain_items(list(items), provider="x", warn=said.append), said


def test_messages_have_their_type_and_no_ids():
    text = {"type": "input_text", "text": "Hi", "prompt_cache_breakpoint": {"mode": "explicit"}}
    said = {"type": "output_text", "text": "Yes", "annotations": []}
    found, warnings = plain(
        {"role": "user", "content": [text]},
        {"type": "message", "role": "assistant", "id": "msg", "phase": "final", "content": [said, said]},
        {"role": "developer", "content": "Be brief."},
    )
    assert found == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
        {"type": "message", "role": "assistant", "content": "YesYes"},
        {"type": "message", "role": "developer", "content": "Be brief."},
    ]
    assert warnings == []


def test_output_repeats_the_name_of_its_call():
    output = {"type": "function_call_output", "call_id": "c", "output": "found", "status": "completed"}
    found, _ = plain({**CALL, "id": "fc", "caller": {}}, output)
    assert found == [
        CALL,
        {"type": "function_call_output", "call_id": "c", "output": "found", "name": "look"},
    ]


def test_output_without_call_stands_alone():
    output = {"type": "function_call_output", "call_id": "c", "output": "found"}
    assert plain(output)[0] == [output]


def test_other_items_are_warned_of():
    found, warnings = plain({"type": "web_search_call", "id": "ws"}, CALL)
    assert found == [CALL]
    assert warnings == ["calls of x's own tools were left out: its input has no such items"]


def test_files_are_refused():
    part = {"type": "input_file", "file_data": "data:application/pdf;base64,eA==", "filename": "a.pdf"}
    with pytest.raises(Unsupported, match="x accepts no files"):
        plain({"role": "user", "content": [part]})
    with pytest.raises(Unsupported, match="x accepts no files"):
        plain({"role": "user", "content": [{"type": "input_file", "file_url": "https://a.example/a.pdf"}]})
