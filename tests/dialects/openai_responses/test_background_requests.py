"""Requests for answers that are kept, and their reverse."""

from __future__ import annotations

import pytest

from llmstream.chats import Message
from llmstream.dialects.base import Position
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import DeliveryQuirks, OpenAIResponses, Quirks
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.server_side.wires.openai_responses.reader import BackgroundRequest, read_background_request

DIALECT = OpenAIResponses()


def asked(**options):
    return Request(model="gpt-5", provider_options=options)


def test_background_needs_a_storing_vendor():
    assert DIALECT.background is not None
    assert OpenAIChat().background is None


def test_background_response_is_stored():
    request = DIALECT.background.store(
        Request(model="gpt-5", messages=(Message.user("Hi"),)), provider="openai-responses"
    )
    body = DIALECT.encode(request, provider="openai-responses").http.json()
    assert (body["background"], body["store"], "include" in body) == (True, True, False)
    assert DIALECT.background.is_stored(request, provider="openai-responses")


def test_other_options_stay():
    request = asked(openai={"truncation": "auto"}, x={"y": 1})
    kept = DIALECT.background.store(request, provider="openai")
    assert kept.provider_options["openai"]["truncation"] == "auto"
    assert kept.provider_options["x"] == {"y": 1}
    assert request.provider_options["openai"] == {"truncation": "auto"}


@pytest.mark.parametrize("name", ["store", "background"])
def test_background_contradicts_no_storage(name):
    with pytest.raises(InvalidRequest, match=f"{name}=False"):
        DIALECT.background.store(asked(**{"openai-responses": {name: False}}), provider="openai-responses")


def test_vendor_without_background_has_none():
    assert (
        OpenAIResponses(Quirks(delivery=DeliveryQuirks(background=False))).background.store(
            asked(), provider="x"
        )
        is None
    )


def test_options_mark_a_background_request():
    assert DIALECT.background.is_stored(asked(openai={"background": True}), provider="azure")
    assert DIALECT.background.is_stored(asked(azure={"background": True}), provider="azure")
    assert not DIALECT.background.is_stored(asked(), provider="azure")


@pytest.mark.parametrize("position", [Position("resp_1"), Position("resp_1", 0), Position("a b/ü", 41)])
def test_what_is_asked_for_is_read_back(position):
    http = DIALECT.background.resume(position)
    assert (http.method, http.body) == ("GET", b"")
    if "/" not in position.response_id:
        assert read_background_request(http, DIALECT.quirks.path) == BackgroundRequest("stream", position)


def test_first_position_requests_everything():
    assert DIALECT.background.resume(Position("r")).url == "/responses/r?stream=true"
    assert DIALECT.background.resume(Position("r", 7)).url == "/responses/r?stream=true&starting_after=7"


def test_ending_an_answer():
    http = DIALECT.background.cancel("resp_1")
    assert (http.method, http.url) == ("POST", "/responses/resp_1/cancel")
    assert read_background_request(http, DIALECT.quirks.path) == BackgroundRequest(
        "cancel", Position("resp_1")
    )
    assert not server_side(DIALECT).accepts(http)


def test_an_answer_in_one_piece():
    http = DIALECT.background.look_up("resp_1")
    assert (http.method, http.url) == ("GET", "/responses/resp_1")
    assert read_background_request(http, DIALECT.quirks.path) == BackgroundRequest("read", Position("resp_1"))


@pytest.mark.parametrize(
    ("body", "made"),
    [
        (b'{"status":"queued"}', False),
        (b'{"status":"in_progress"}', False),
        (b'{"status":"completed"}', True),
        (b'{"status":"failed"}', True),
        (b"{}", True),
        (b"no JSON", True),
    ],
)
def test_response_is_made_unless_waiting(body, made):
    assert DIALECT.background.is_made(body) == made


@pytest.mark.parametrize("hostile", ["../files/x", "a?b=c", "a#b", "a/cancel", "a%2fb", "a\r\nx: y"])
def test_an_id_leads_nowhere_else(hostile):
    path = DIALECT.background.resume(Position(hostile, 1)).url.partition("?")[0]
    assert path.count("/") == 2
    assert path.isprintable()
    assert DIALECT.background.cancel(hostile).url.count("/") == 3


@pytest.mark.parametrize("empty", ["", ".", ".."])
def test_what_is_no_id_is_refused(empty):
    with pytest.raises(InvalidRequest):
        DIALECT.background.resume(Position(empty))


@pytest.mark.parametrize(
    ("method", "url"),
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/models"),
        ("GET", "/v1/responses/a/b"),
        ("DELETE", "/v1/responses/a"),
        ("POST", "/v1/responses/a"),
    ],
)
def test_other_requests_are_none_of_these(method, url):
    assert read_background_request(HttpRequest(url, method=method), DIALECT.quirks.path) is None
