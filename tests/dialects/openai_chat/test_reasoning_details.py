"""OpenRouter's reasoning details, put together and kept apart."""

from __future__ import annotations

from llmstream.dialects.openai_chat.reasoning import ReasoningDetails, joined


def text(words, **more):
    return {"type": "reasoning.text", "index": 0, "text": words, **more}


def test_fragments_of_one_type_and_index_are_one_detail():
    details = ReasoningDetails()
    assert details.add([text("a"), text("b", signature=None)]) == "ab"
    details.add([{"type": "reasoning.text", "index": 0, "signature": "s"}])
    assert details.items == [{"type": "reasoning.text", "index": 0, "signature": "s", "text": "ab"}]


def test_types_that_share_an_index_stay_apart():
    details = ReasoningDetails()
    details.add([text("a"), {"type": "reasoning.encrypted", "index": 0, "data": "x"}])
    assert [item["type"] for item in details.items] == ["reasoning.text", "reasoning.encrypted"]


def test_encrypted_details_with_ids_of_their_own_stay_apart():
    details = ReasoningDetails()
    details.add([{"type": "reasoning.encrypted", "index": 0, "data": d, "id": d} for d in "xy"])
    assert [item["data"] for item in details.items] == ["x", "y"]


def test_text_after_a_signature_is_a_new_detail():
    details = ReasoningDetails()
    details.add([text("a"), text("", signature="s"), text("b")])
    assert [item["text"] for item in details.items] == ["a", "b"]


def test_details_of_several_parts_join_again():
    late = {"type": "reasoning.text", "index": 0, "signature": "s"}
    assert joined([[text("a")], None, [late]]) == [text("a", signature="s")]


def test_anything_that_is_no_detail_is_left_out():
    details = ReasoningDetails()
    assert details.add([None, 1, {"type": None}]) == ""
