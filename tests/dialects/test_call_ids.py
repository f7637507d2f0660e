"""Ids for calls that come without one."""

from __future__ import annotations

from llmstream.dialects.call_ids import is_minted, mint_call_id


def test_minted_ids_are_unique_and_known():
    ids = {mint_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(is_minted(one) for one in ids)
    assert not is_minted("call_1")
