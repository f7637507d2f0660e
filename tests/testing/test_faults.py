"""Fault servers need a script. `chaos` puts what it does at the ends of events, whatever ends their lines."""

from __future__ import annotations

import pytest

from llmstream.dialects.ollama import Ollama
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.errors import InvalidRequest
from llmstream.testing import FaultServer, chaos


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"], ids=["LF", "CRLF", "CR"])
def test_events_of_any_line_end_stay_whole(end: bytes) -> None:
    one, two, three = (b"data: " + name + end for name in (b"1", b"2", b"3"))
    body = one + two + three
    before, overload = chaos(body, "overloaded", dialect=OpenAIChat(), at=len(one) + 2)
    assert before == one + two
    assert isinstance(overload, bytes)
    assert overload.startswith(b"event: error\ndata: ")
    doubled = chaos(body, "doubled", dialect=OpenAIChat(), at=len(one) + 2)
    assert doubled == [one + two, two, three]


def test_first_or_last_event_is_doubled() -> None:
    body = b'{"a":1}\n{"b":2}\n'
    assert chaos(body, "doubled", dialect=Ollama(), at=0) == [b'{"a":1}\n', b'{"a":1}\n', b'{"b":2}\n']
    assert chaos(body, "doubled", dialect=Ollama(), at=9) == [body, b'{"b":2}\n', b""]


def test_a_server_without_a_script() -> None:
    """Its clients waited for ever."""
    with pytest.raises(InvalidRequest, match="needs a script"):
        FaultServer()


def test_address_before_the_start_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="the server is not running"):
        _ = FaultServer([b"data: {}"]).url
