"""Options of other SDKs and misspelt ones: the error names ours. Other mistakes fail where they are made."""

from __future__ import annotations

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats import Image, Text
from llmstream.streams.options import Options, as_messages


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("max_tokens", "Did you mean max_output_tokens=?"),
        ("timeout", "Did you mean deadlines=ls.Deadlines(total_s=...)?"),
        ("max_retries", "Did you mean retry=ls.Retry(max_retries=...)?"),
        ("temprature", "Did you mean temperature=?"),
        ("stop_sequences", "Did you mean stop=?"),
        ("reasoning_effort", "Did you mean reasoning=?"),
        ("response_model", "Did you mean output=?"),
        ("api_key", "Model(..., api_key=...) takes it"),
        ("base_url", "Model(..., base_url=...) takes it"),
        ("logit_bias", "provider_options={'PROVIDER': {'logit_bias': ...}}"),
        ("messages", "The conversation is the prompt"),
        ("stream", "every answer is a stream"),
    ],
)
def test_foreign_option_name_hints_at_ours(option, hint) -> None:
    for ask in (lambda **o: ls.stream("sim:demo", "Hi", **o), lambda **o: ls.Agent("sim:demo", **o)):
        with pytest.raises(ls.InvalidRequest, match="unknown option") as refused:
            ask(**{option: 5})
        assert hint in str(refused.value)
    assert option not in Options.__annotations__


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"retry": 3}, "Write retry=ls.Retry(max_retries=...)"),
        ({"deadlines": 30}, "Write deadlines=ls.Deadlines(total_s=...)"),
        ({"output": "jsno"}, 'Write output="json" for any JSON object'),
    ],
)
def test_wrong_option_form_hints_at_right(options, remedy) -> None:
    with pytest.raises(ls.InvalidRequest) as refused:
        ls.stream("sim:demo", "Hi", **options)
    assert remedy in str(refused.value)


def test_zero_deadline_refused_at_creation() -> None:
    with pytest.raises(ls.InvalidRequest, match="total_s is a positive number"):
        ls.Deadlines(total_s=0)


@pytest.mark.parametrize("model", [{"api_key": 3}, {"base_url": "htp://x"}, {"base_url": 5}])
def test_bad_key_or_url_refused_at_creation(model) -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.Model("openai:x", **model)


def test_empty_prompt_refused_in_every_form() -> None:
    for prompt in ("", [], ls.Chat()):
        with pytest.raises(ls.InvalidRequest, match="the prompt is empty"):
            ls.stream("sim:demo", prompt)


async def test_dicts_of_openai_form_are_a_prompt() -> None:
    prompt = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    stream = ls.stream("sim:demo", prompt)
    assert (await stream.collect()).text.startswith("You said: Hello")
    parts = [{"type": "text", "text": "x"}]
    mixed = as_messages([*prompt, ls.Message.user("And?"), {"role": "user", "content": parts}])
    assert [message.role for message in mixed] == ["system", "user", "user", "user"]
    assert as_messages(prompt[1]) == [ls.Message.user("Hello")]


async def test_missing_type_refused_before_request(serve) -> None:
    asked = []

    async def answer(request: web.Request) -> web.Response:
        asked.append(request)
        return web.Response(status=500)

    stream = ls.stream(ls.Model("openai:x", base_url=await serve(answer), api_key="k"), "Hi")
    with pytest.raises(ls.InvalidRequest, match="Pass output=T"):
        stream.objects()
    with pytest.raises(ls.InvalidRequest, match="Pass output=T"):
        _ = stream.object
    run = ls.Agent("sim:demo").stream("Hi")
    with pytest.raises(ls.InvalidRequest, match="output=T"):
        run.objects()
    assert asked == []


@pytest.mark.parametrize("make", [ls.Message.user, ls.Message.assistant])
def test_bytes_without_media_type_refused(make) -> None:
    with pytest.raises(ls.InvalidRequest, match=r"Write Image\(data="):
        make("x", b"\x89PNG")
    assert make("x", Image(data=b"\x89PNG")).parts[0] == Text("x")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("max_turns", "max_steps="),
        ("context", "deps="),
        ("system_prompt", "instructions="),
        ("history_processors", "context_effects="),
        ("max_step", "max_steps="),
        ("temprature", "temperature="),
    ],
)
def test_an_agents_options_are_hinted_at(option, hint) -> None:
    with pytest.raises(
        ls.InvalidRequest, match=f"unknown option '{option}' of an agent. Did you mean {hint}"
    ):
        ls.Agent("sim:demo", **{option: 5})
