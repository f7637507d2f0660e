"""Ids of calls: minted ones, and those in the form that Mistral takes."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from llmstream.chats.content import ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects import history_parts
from llmstream.dialects.history_parts import ShortCallIds, is_minted, mint_call_id


def test_minted_ids_are_unique_and_known():
    ids = {mint_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_minted(one) for one in ids)
    assert not is_minted("call_1")


def said(*names):
    return [Message.assistant(*(ToolCall(name, "f") for name in names))]


def test_an_id_of_the_vendors_form_stays():
    assert ShortCallIds(said("D681PevKs"))["D681PevKs"] == "D681PevKs"


def test_other_id_forms_are_replaced_stably():
    ids = ShortCallIds(said("call_1"))
    assert re.fullmatch("[a-zA-Z0-9]{9}", ids["call_1"])
    assert ShortCallIds(said("other", "call_1"))["call_1"] == ids["call_1"]


def test_result_without_a_call_has_an_id_too():
    ids = ShortCallIds([Message.tool([ToolResult("call_1")])])
    assert ids["call_1"] == ShortCallIds(said("call_1"))["call_1"]


def test_replacement_avoids_existing_ids(monkeypatch):
    taken = ShortCallIds(said("call_1"))["call_1"]
    ids = ShortCallIds(said("call_1", taken))
    assert ids[taken] == taken
    assert ids["call_1"] != taken


def test_equal_digests_give_different_ids(monkeypatch):
    class Same:
        def __init__(self, data):
            self.data = data

        def digest(self):
            return b"same bytes" if self.data.startswith(b"0:") else self.data.rjust(8)

    monkeypatch.setattr(history_parts.hashlib, "sha256", Same)
    ids = ShortCallIds(said("call_1", "call_2"))
    assert ids["call_1"] != ids["call_2"]


@given(st.lists(st.text(max_size=12), unique=True))
def test_every_id_fits_and_no_two_are_equal(names):
    ids = ShortCallIds(said(*names))
    wire = [ids[name] for name in names]
    assert len(set(wire)) == len(names)
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", name) for name in wire)
