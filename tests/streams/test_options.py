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
    """A misspelt one is named; for a word of no meaning the list of all is the best advice."""
    for ask in (request, lambda **options: ls.Model("sim:demo").stream("Hi", **options)):
        with pytest.raises(ls.InvalidRequest, match=r"'temprature'. Did you mean temperature=\?$"):
            ask(temprature=value)
        with pytest.raises(ls.InvalidRequest, match=r"Options: adapt, .*top_p\. .*provider_options=\{"):
            ask(zzz=value)


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
        ({"stop": 5}, "stop must be a str or a list of them, got 5"),
        ({"headers": "x: y"}, "headers must be a mapping"),
        ({"provider_options": {"openai": 5}}, "'openai'"),
        ({"tools": print}, "tools must be a list"),
        ({"output": {"type": "json_object"}}, "OpenAI's response_format"),
    ],
)
def test_meaningless_option_is_refused(options, said) -> None:
    with pytest.raises(ls.InvalidRequest, match=said):
        request(**options)


@pytest.mark.parametrize("prompt", [None, 5, b"Hi", ["Hi"]])
def test_a_prompt_that_is_none_is_refused(prompt) -> None:
    with pytest.raises(ls.InvalidRequest, match="a prompt must be a str, "):
        as_messages(prompt)


@pytest.mark.parametrize("name", ["messages", "input", "contents"])
async def test_prompt_by_another_name_refused(name) -> None:
    """As by the SDKs of the vendors, whose first argument is the model."""
    given = {name: [{"role": "user", "content": "Hi"}]}
    with pytest.raises(ls.InvalidRequest, match="is the prompt, without a name: stream"):
        ls.stream(model="sim:demo", **given)
    with pytest.raises(ls.InvalidRequest, match="is the prompt, without a name: stream"):
        ls.Model("sim:demo").stream(**given)
    with pytest.raises(ls.InvalidRequest, match="is the prompt, without a name: stream"):
        await ls.Model("sim:demo").ask(**given)


async def test_a_missing_prompt_is_refused() -> None:
    with pytest.raises(ls.InvalidRequest, match="the prompt is missing"):
        ls.stream("sim:demo")
    with pytest.raises(ls.InvalidRequest, match="the prompt is missing"):
        await ls.Model("sim:demo").ask()


@pytest.mark.parametrize(
    ("choice", "hint"),
    [
        ("any", 'Write "required"'),
        ({"type": "any"}, 'Write "required"'),
        ({"mode": "ANY"}, 'Write "required"'),
        ({"type": "function", "function": {"name": "look"}}, "Write tool_choice='look'"),
        ({"type": "tool", "name": "look"}, "Write tool_choice='look'"),
        ("lok", r"the name of a tool \('look'\); got 'lok'"),
    ],
)
def test_choice_of_another_api_is_explained(choice, hint) -> None:
    def look() -> str:
        return ""

    with pytest.raises(ls.InvalidRequest, match=hint):
        request(tools=[look], tool_choice=choice)


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


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 3}, r"unknown setting 'max_tokens'\. Did you mean max_output_tokens="),
        ({1: 2}, "unknown setting '1'"),
        ({"temperature": "warm"}, "temperature must be a number, got 'warm'"),
        (5, "settings must be Settings or a dict of them, got 5"),
    ],
)
def test_invalid_settings_are_explained(settings, message) -> None:
    with pytest.raises(ls.InvalidRequest, match=message):
        ls.Model("sim:demo").stream("Hi", settings=settings)
