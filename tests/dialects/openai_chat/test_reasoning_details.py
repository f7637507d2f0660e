"""OpenRouter's reasoning details, put together and kept apart."""

from __future__ import annotations

from llmstream.dialects.openai_chat.reasoning import ReasoningDetails, joined


def text(words, **more):
    return {"type": "reasoning.text", "index": 0, "text": words, **more}


def test_same_type_and_index_is_one_detail():
    details = ReasoningDetails()
    assert details.add([text("a"), text("b", signature=None)]) == "ab"
    details.add([{"type": "reasoning.text", "index": 0, "signature": "s"}])
    assert details.items == [{"type": "reasoning.text", "index": 0, "signature": "s", "text": "ab"}]


def test_types_sharing_an_index_stay_apart():
    details = ReasoningDetails()
    details.add([text("a"), {"type": "reasoning.encrypted", "index": 0, "data": "x"}])
    assert [item["type"] for item in details.items] == ["reasoning.text", "reasoning.encrypted"]


def test_encrypted_details_with_ids_separate():
    details = ReasoningDetails()
    details.add([{"type": "reasoning.encrypted", "index": 0, "data": d, "id": d} for d in "xy"])
    assert [item["data"] for item in details.items] == ["x", "y"]


def test_text_after_signature_is_new_detail():
    details = ReasoningDetails()
    details.add([text("a"), text("", signature="s"), text("b")])
    assert [item["text"] for item in details.items] == ["a", "b"]


def test_details_of_several_parts_join_again():
    late = {"type": "reasoning.text", "index": 0, "signature": "s"}
    assert joined([[text("a")], None, [late]]) == [text("a", signature="s")]


def test_malformed_details_are_left_out():
    details = ReasoningDetails()
    assert details.add([None, 1, {"type": None}]) == ""
