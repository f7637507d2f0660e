"""Tokens are counted at the paths where the vendors count them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.server_side.routing import count_request, default_dialects
from llmstream.server_side.wires import server_side
from llmstream.simulator.timeline import tokens_of

WORDS = "x" * 40
TALK = [{"role": "user", "content": WORDS}]
CONTENTS = [{"role": "user", "parts": [{"text": WORDS}]}]
CONVERSED = [{"role": "user", "content": [{"text": WORDS}]}]


def count(path: str, body: Any, method: str = "POST") -> HttpResponse | None:
    http = HttpRequest(path, msgspec.json.encode(body), {}, method)
    counted = count_request(http, map(server_side, default_dialects()))
    return None if counted is None else counted.page(tokens_of(counted.request))


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/v1/messages/count_tokens", {"model": "m", "messages": TALK}, {"input_tokens": 10}),
        (
            "/v1/responses/input_tokens",
            {"model": "m", "input": WORDS},
            {"object": "response.input_tokens", "input_tokens": 10},
        ),
        ("/v1beta/models/m:countTokens", {"contents": CONTENTS}, {"totalTokens": 10}),
        (
            "/v1beta/models/m:countTokens?key=k",
            {"generateContentRequest": {"contents": CONTENTS}},
            {"totalTokens": 10},
        ),
        ("/model/m/count-tokens", {"input": {"converse": {"messages": CONVERSED}}}, {"inputTokens": 10}),
    ],
)
def test_each_vendor_is_told_in_its_words(path: str, body: Any, said: Any) -> None:
    answer = count(path, body)
    assert answer is not None
    assert said.items() <= msgspec.json.decode(answer.body).items()


def test_other_requests_are_ignored() -> None:
    assert count("/v1/messages", {"model": "m", "messages": TALK, "max_tokens": 1}) is None
    assert count("/v1/messages/count_tokens", {}, "GET") is None


@pytest.mark.parametrize("body", [{"model": "m", "messages": []}, {"messages": TALK}, [1], "x"])
def test_a_bad_request_is_refused(body: Any) -> None:
    with pytest.raises(BadRequest):
        count("/v1/messages/count_tokens", body)


def test_unserved_dialect_counts_nothing() -> None:
    http = HttpRequest("/v1/messages/count_tokens", b"{}", {}, "POST")
    assert count_request(http, []) is None
