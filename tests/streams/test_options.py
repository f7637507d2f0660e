"""What a caller may pass, and what is refused before anything is sent."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.chats import Image, Text, UnknownPart
from llmstream.streams.options import Options, as_messages, make_request


def request(**options):
    return make_request("m", [ls.Message.user("Hi")], options)


@pytest.mark.parametrize("option", sorted(set(Options.__annotations__)))
def test_none_is_as_if_not_given(option) -> None:
    assert request(**{option: None}) == request()


def test_none_in_settings_keeps_the_field() -> None:
    assert request(settings=ls.Settings(top_p=0.5), top_p=None).settings.top_p == 0.5
    assert request(settings={"top_p": 0.5}, top_p=0.1).settings.top_p == 0.1


@pytest.mark.parametrize("value", [0.5, None])
def test_unknown_option_lists_valid_ones(value) -> None:
    for ask in (request, lambda **options: ls.Model("sim:demo").stream("Hi", **options)):
        with pytest.raises(ls.InvalidRequest, match=r"unknown option 'temprature'.*temperature") as refused:
            ask(temprature=value)
        assert "provider_options" in str(refused.value)


def test_stop_is_one_string_or_a_list() -> None:
    assert request(stop="a").settings.stop == ("a",)
    assert request(stop=(word for word in "ab")).settings.stop == ("a", "b")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"errors": "event"}, "errors"),
        ({"deadlines": 5}, "deadlines must be a Deadlines"),
        ({"retry": 3}, "retry must be a Retry"),
        ({"temperature": math.nan}, "temperature must be a finite number"),
        ({"settings": {"top_p": math.inf}}, "top_p must be a finite number"),
        ({"settings": 5}, "settings"),
        ({"stop": 5}, "settings"),
        ({"headers": "x: y"}, "headers must be a mapping"),
        ({"provider_options": {"openai": 5}}, "'openai'"),
        ({"tools": print}, "tools must be a list"),
        ({"output": {"type": "json_object"}}, "OpenAI's wire"),
    ],
)
def test_meaningless_option_is_refused(options, said) -> None:
    with pytest.raises(ls.InvalidRequest, match=said):
        request(**options)


@pytest.mark.parametrize("prompt", [None, 5, b"Hi", ["Hi"]])
def test_a_prompt_that_is_none_is_refused(prompt) -> None:
    with pytest.raises(ls.InvalidRequest, match="a prompt must be a str, a Message"):
        as_messages(prompt)


def test_a_model_that_is_no_name_is_refused() -> None:
    with pytest.raises(ls.InvalidRequest, match="provider:model"):
        ls.stream(None, "Hi")


@pytest.mark.parametrize("part", [5, "Hi", ["Hi"], {"type": "text"}])
def test_non_part_refused_in_each_prompt(part) -> None:
    message = ls.Message("", "user", (Text("x"), part))
    for prompt in (message, [message], ls.Chat(message)):
        with pytest.raises(ls.InvalidRequest, match="consists of parts"):
            as_messages(prompt)


@pytest.mark.parametrize("image", [Image(), Image(url=Path("cat.png")), Image(data="cat")])
def test_an_image_of_nothing_is_refused(image) -> None:
    with pytest.raises(ls.InvalidRequest, match="Image: "):
        as_messages(ls.Message.user(image))


def test_vendor_parts_may_lack_bytes() -> None:
    """So may parts of an unknown kind."""
    kept = Image(metadata={"openai": {"file_id": "f1"}})
    message = ls.Message.user(kept, UnknownPart("video", b'{"kind":"video"}'))
    assert as_messages(message) == [message]


@pytest.mark.parametrize(
    "fields", [{"n": 2}, {"candidateCount": 2}, {"generationConfig": {"candidateCount": 3}}]
)
def test_several_answers_are_refused(fields) -> None:
    """A stream is one answer: of the others nothing could be read."""
    for ask in (lambda **o: ls.stream("sim:demo", "Hi", **o), lambda **o: ls.Agent("sim:demo", **o)):
        with pytest.raises(ls.InvalidRequest, match=r"several answers.*asyncio\.gather"):
            ask(provider_options={"sim": fields})
    ls.stream("sim:demo", "Hi", provider_options={"sim": {"n": 1}})
