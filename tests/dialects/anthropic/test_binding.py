"""Thinking that is bound to a conversation which has changed."""

from __future__ import annotations

import msgspec
import pytest

from llmstream.dialects.anthropic import BEDROCK_INVOKE, Anthropic
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest

BOUND = BadRequest(
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different "
    "conversation prefix.",
    status=400,
)
DROP = {"prefix_mismatch_behavior": "drop_block"}
BETA = "thinking-binding-controls-2026-08-01"


def repaired(body, error=BOUND, *, dialect=Anthropic(), **headers):
    return dialect.repaired(HttpRequest("/v1/messages", msgspec.json.encode(body), headers), error)


@pytest.mark.parametrize("thinking", [{}, {"thinking": {"type": "adaptive", "display": "summarized"}}])
def test_the_vendor_is_asked_to_drop_it(thinking):
    http = repaired({"model": "claude-opus-5-5", **thinking}, **{"anthropic-beta": "other-2026-01-01"})
    wanted = {"type": "adaptive", **thinking.get("thinking", {}), "block_binding": DROP}
    assert http.json()["thinking"] == wanted
    assert http.headers["anthropic-beta"] == f"other-2026-01-01,{BETA}"


def test_bedrock_takes_the_beta_in_the_body():
    http = repaired({"max_tokens": 9}, dialect=BEDROCK_INVOKE)
    assert http.json()["anthropic_beta"] == [BETA]
    assert "anthropic-beta" not in http.headers


@pytest.mark.parametrize(
    ("thinking", "error"),
    [
        ({"type": "disabled"}, BOUND),
        ({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "error"}}, BOUND),
        ({"type": "adaptive"}, BadRequest("max_tokens: Field required", status=400)),
    ],
)
def test_other_requests_are_not_repaired(thinking, error):
    assert repaired({"thinking": thinking}, error) is None
