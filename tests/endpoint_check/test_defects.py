"""Each defect of a wire has a finding that names it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from aiohttp import web
from wiredefects.proxy import (
    Defect,
    each_delta,
    each_text,
    one_piece,
    reason,
    refusing,
    served,
    whole_calls,
    without,
    without_system,
)

import llmstream as ls
from llmstream.dialects import openai_chat
from llmstream.dialects.openai_chat import OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.endpoint_check import PROBES, STATUSES, check_endpoint
from llmstream.providers.base import Provider
from llmstream.simulator import Call, Pace, Script, Simulator, Turn


def calls(change):
    return Defect(frames=whole_calls(change))


def altered(**fields):
    """Complete calls with other fields; None removes one."""

    def change(complete):
        for call in complete:
            call.update(fields)
        kept = [{name: v for name, v in call.items() if v is not None} for call in complete]
        return {"tool_calls": kept}

    return calls(change)


def objects(complete):
    for call in complete:
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    return {"tool_calls": complete}


def merged(complete):
    complete[0]["function"]["arguments"] = "".join(c["function"]["arguments"] for c in complete)
    return {"tool_calls": complete[:1]}


def as_text(complete):
    call = {"name": complete[0]["function"]["name"], "arguments": {}}
    return {"content": f"<tool_call>{json.dumps(call)}</tool_call>"}


def same(complete):
    for call in complete:
        call["function"]["arguments"] = complete[0]["function"]["arguments"]
    return {"tool_calls": complete}


def without_usage(frames):
    return [frame for frame in frames if not frame.pop("usage", None)]


def one_token(frames):
    for frame in frames:
        if frame.get("usage"):
            frame["usage"]["completion_tokens"] = 1
    return frames


def thinking(delta):
    if "reasoning_content" in delta:
        delta["thinking_text"] = delta.pop("reasoning_content")


def tagged(delta):
    if delta.get("reasoning_content"):
        delta["content"] = f"<think>{delta.pop('reasoning_content')}</think>"


def html(status, body):
    return web.Response(status=status, text="<html><h1>Error</h1></html>", content_type="text/html")


def text(status, body):
    return web.Response(status=status, text="page not found", content_type="text/plain")


def success(status, body):
    return web.json_response(json.loads(body), status=200)


def failing(status, body):
    return web.Response(status=500, body=body, content_type="application/json")


def cut_character(body):
    at = body.find("你".encode())
    return body if at < 0 else body[: at + 1] + body[at + 2 :]


def cut_json(body):
    return body.replace(b"data: {", b"data: [{", 1)


DEFECTS = {
    "usage missing": (Defect(frames=without_usage), "usage", "degraded", "no usage"),
    "usage implausible": (Defect(frames=one_token), "usage", "degraded", "1 output tokens"),
    "length as stop": (Defect(frames=reason("length", "stop")), "length", "broken", "instead of length"),
    "stop as length": (Defect(frames=reason("stop", "length")), "text", "broken", "wrong finish reason"),
    "stop unknown": (Defect(frames=reason("stop", "done")), "text", "degraded", "'done' instead of stop"),
    "stop missing": (Defect(frames=reason("stop", None)), "text", "degraded", "no finish reason"),
    "calls as stop": (Defect(frames=reason("tool_calls", "stop")), "wire", "degraded", '"stop"'),
    "arguments as object": (calls(objects), "wire", "degraded", "JSON object, not a string"),
    "id missing": (altered(id=None), "wire", "degraded", "have no id"),
    "id twice": (altered(id="call_same"), "wire+", "degraded", "duplicated ids"),
    "id repeated": (altered(id="call_0"), "wire+", "degraded", "repeat in each response"),
    "index missing": (altered(index=None), "wire", "degraded", "no index"),
    "calls merged": (calls(merged), "tool-parallel", "broken", "merged"),
    "calls with the same arguments": (calls(same), "tool-parallel", "degraded", "same arguments"),
    "call as text": (calls(as_text), "tools", "broken", "arrives as text"),
    "arguments in one piece": (
        calls(lambda c: {"tool_calls": c}),
        "tool-arguments",
        "degraded",
        "one piece",
    ),
    "no end mark": (
        Defect(body=lambda body: body.replace(b"data: [DONE]\n\n", b"")),
        "end",
        "degraded",
        "without [DONE]",
    ),
    "cut": (Defect(body=lambda body: body[: len(body) // 2]), "end", "broken", "incomplete-stream"),
    "mojibake": (
        Defect(frames=each_text(lambda text: text.encode().decode("latin-1"))),
        "unicode",
        "broken",
        "mojibake",
    ),
    "characters cut": (
        Defect(
            frames=each_text(lambda text: text.encode("ascii", "replace").decode().replace("?", "\ufffd"))
        ),
        "unicode",
        "broken",
        "U+FFFD",
    ),
    "question marks": (
        Defect(frames=each_text(lambda text: text.encode("ascii", "replace").decode())),
        "unicode",
        "broken",
        "question marks",
    ),
    "not UTF-8": (Defect(body=cut_character), "unicode", "broken", "not UTF-8"),
    "one piece": (Defect(frames=one_piece), "streaming", "degraded", "single piece"),
    "media type": (Defect(content_type="text/plain"), "content-type", "degraded", "text/plain"),
    "media type of JSON": (
        Defect(content_type="application/json"),
        "content-type",
        "degraded",
        "application/json",
    ),
    "frame is not JSON": (Defect(body=cut_json), "wire", "broken", "could not be decoded"),
    "tool_choice ignored": (without("tool_choice"), "tool-required", "broken", "ignored"),
    "named tool ignored": (without("tool_choice"), "tool-named", "broken", "ignored"),
    "schema ignored": (without("response_format"), "schema", "broken", "schema is ignored"),
    "stop ignored": (without("stop"), "stop", "broken", "ignored"),
    "limit ignored": (
        without("max_tokens", "max_completion_tokens"),
        "length",
        "broken",
        "limit of 16 output tokens is ignored",
    ),
    "limit of another name": (
        without("max_tokens"),
        "length",
        "broken",
        "as max_completion_tokens it is obeyed",
    ),
    "system ignored": (Defect(request=without_system), "system", "degraded", "system prompt is ignored"),
    "image refused": (Defect(request=refusing("image", "image_url")), "image", "unsupported", "refused"),
    "tools refused": (Defect(request=refusing("tools", '"tools"')), "tools", "unsupported", "refused"),
    "setting refused": (Defect(request=refusing("seed", '"seed"')), "settings", "unsupported", "seed"),
    "reasoning in the text": (Defect(frames=each_delta(tagged)), "reasoning", "degraded", "<think>"),
    "reasoning lost": (
        Defect(frames=each_delta(lambda delta: delta.pop("reasoning_content", None))),
        "reasoning",
        "degraded",
        "reasoning is lost",
    ),
    "reasoning elsewhere": (Defect(frames=each_delta(thinking)), "wire*", "degraded", "'thinking_text'"),
    "errors as HTML": (Defect(error=html), "wrong-model", "degraded", "HTML"),
    "errors as text": (Defect(error=text), "wrong-model", "degraded", "plain text"),
    "errors with status 200": (Defect(error=success), "wrong-model", "broken", "HTTP 200"),
    "errors with status 500": (Defect(error=failing), "bad-request", "degraded", "not 400"),
    "wrong key as 500": (Defect(error=failing), "wrong-key", "degraded", "not 401"),
    "no keep-alive": (Defect(close=True), "keep-alive", "degraded", "Connection: close"),
    "any model": (
        Defect(request=lambda body: {**body, "model": "m"}),
        "wrong-model",
        "degraded",
        "does not exist",
    ),
}
MORE = {"+": ["tool-parallel"], "*": ["reasoning"]}
"""Probes whose exchanges the probe of the wire has to see as well."""


PROVIDER = Provider(
    name="mine",
    dialect=OpenAIChat(hosted(change(ThinkingQuirks, style="effort"))),
    base_url="",
    key_required=True,
)
"""A host of open models, which is asked for whatever it can do."""


async def checked(defect, only, **pace):
    async with served(defect, **pace) as url:
        model = ls.Model("mine:m", base_url=url, api_key="right", provider=PROVIDER)
        return await check_endpoint(model, only=only)


async def test_proxy_without_defect_is_clean():
    report = await checked(Defect(), [])
    assert [(f.probe, f.status, f.detail) for f in report.findings if f.status != "ok"] == []


@pytest.mark.parametrize("name", DEFECTS)
async def test_finding_names_the_defect(name):
    defect, probe, status, words = DEFECTS[name]
    report = await checked(defect, [probe.rstrip("+*"), *MORE.get(probe[-1], [])])
    found = [f for f in report.findings if f.probe == probe.rstrip("+*") and f.status == status]
    assert any(words in finding.detail for finding in found), report.findings
    assert all(finding.meaning for finding in found if status in ("broken", "degraded")), found


async def test_buffering_proxy_is_named():
    report = await checked(Defect(stream=False), ["streaming"], pace=Pace(delta_s=0.01))
    (finding,) = report.findings
    assert finding.status == "degraded"
    assert finding.detail.startswith("buffering: 40 pieces arrive in 1 read")


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFECTS)
async def test_other_probes_go_on(name):
    """One defect ends no check: each probe has a finding."""
    report = await checked(DEFECTS[name][0], [])
    assert {finding.probe for finding in report.findings} == {probe.name for probe in PROBES}


@pytest.mark.slow
async def test_abandoned_response_goes_on():
    """The server does not notice that its reader left: the next request waits."""
    report = await checked(Defect(busy_s=3.0), ["cancellation"])
    (finding,) = report.findings
    assert finding.status == "degraded"
    assert "after an abandoned response" in finding.detail


async def test_echoed_keys_are_masked():
    """A gateway that repeats the request in its errors does not put the key into reports."""

    def echo(status, body):
        return web.Response(status=422, text="<html>Bearer right-and-secret</html>", content_type="text/html")

    async with served(Defect(error=echo), key="right-and-secret") as url:
        model = ls.Model("mine:m", base_url=url, api_key="right-and-secret", provider=PROVIDER)
        report = await check_endpoint(model, only=["wrong-model", "bad-request"])
    assert [finding.status for finding in report.findings] == ["degraded", "degraded"]
    assert "Bearer ***" in report.findings[0].evidence
    assert b"right-and-secret" not in report.to_json()


@pytest.mark.parametrize(
    ("provider", "path", "frame", "words"),
    [
        ("anthropic", "", b'event: x\ndata: {"type": "content_block_hint"}\n\n', "'content_block_hint'"),
        ("openai-responses", "/v1", b'data: {"type": "session.note"}\n\n', "'session.note'"),
    ],
)
async def test_unknown_events_are_named(provider, path, frame, words):
    async with served(Defect(body=lambda body: frame + body), path=path) as url:
        model = ls.Model(f"{provider}:m", base_url=url, api_key="right")
        report = await check_endpoint(model, only=["wire"])
    (finding,) = report.findings
    assert finding.status == "degraded"
    assert words in finding.detail


@pytest.mark.parametrize(
    ("turn", "probe", "status"),
    [
        # It goes on after the last number, up to the limit.
        (Turn(text="1, 2, 40. " + "And so on. " * 200, finish_reason="length"), "text", "ok"),
        # Other tools with the same argument are two calls.
        (
            Turn(calls=(Call("get_weather", {"city": "Oslo"}), Call("get_time", {"city": "Oslo"}))),
            "tool-parallel",
            "ok",
        ),
        (Turn(text="1"), "length", "inconclusive"),
        (Turn(text="", reasoning="Hm.", finish_reason="length"), "length", "ok"),
        (Turn(text="", reasoning="Hm.", finish_reason="length"), "schema", "inconclusive"),
        (Turn(text="", reasoning="Hm.", finish_reason="length"), "tool-named", "inconclusive"),
        (Turn(text="I see nothing."), "image", "inconclusive"),
        (Turn(calls=(Call("get_whether", {"city": "Reykjavik"}),)), "tools", "inconclusive"),
    ],
)
async def test_choice_of_model_is_no_defect(turn, probe, status):
    async with Simulator(Script((turn,) * 9)) as simulator:
        model = ls.Model("mine:m", base_url=f"{simulator.url}/v1", api_key="k", provider=PROVIDER)
        report = await check_endpoint(model, only=[probe])
    assert [finding.status for finding in report.findings] == [status], report.findings


async def test_model_that_disobeys_breaks_nothing():
    """What a model does not do is inconclusive, not broken."""
    report = await check_endpoint("sim:demo")
    assert report.broken == ()
    statuses = {finding.probe: finding.status for finding in report.findings}
    assert statuses["stop"] == statuses["tool-parallel"] == statuses["turns"] == "inconclusive"


async def test_evasive_model_is_inconclusive():
    """A model that says the same to everything: only what the API guarantees counts as broken."""
    async with Simulator(Script((Turn(text="I would rather not."),) * 60)) as simulator:
        model = ls.Model("mine:m", base_url=f"{simulator.url}/v1", api_key="k", provider=PROVIDER)
        report = await check_endpoint(model)
    assert [finding.probe for finding in report.broken] == ["schema", "tool-required", "tool-named"]


@pytest.mark.parametrize(
    ("defect", "status", "words"),
    [
        (Defect(), "ok", "accepted"),
        (Defect(request=refusing("reasoning_content", '"reasoning_content"')), "unsupported", "is refused"),
    ],
)
async def test_reasoning_goes_back(defect, status, words):
    quirks = hosted(change(ThinkingQuirks, style="effort"), change(openai_chat.ReasoningQuirks, echo="all"))
    provider = replace(PROVIDER, dialect=OpenAIChat(quirks))
    async with served(defect) as url:
        model = ls.Model("mine:m", base_url=url, api_key="right", provider=provider)
        report = await check_endpoint(model, only=["reasoning-echo"])
    (finding,) = report.findings
    assert finding.status == status
    assert words in finding.detail
    assert [q.expression for q in report.quirks] == (
        ['change(ReasoningQuirks, echo="never")'] if status == "unsupported" else []
    )


@pytest.mark.parametrize("provider", ["sim-anthropic", "sim-gemini", "sim-openai-responses"])
async def test_signatures_go_back(provider):
    report = await check_endpoint(f"{provider}:probe", only=["reasoning-echo"])
    assert [finding.detail for finding in report.findings] == ["accepted"]


async def test_inconclusive_answer_is_asked_again():
    report = await check_endpoint("sim:demo", only=["turns"], attempts=3)
    assert report.requests == 3


@pytest.mark.parametrize(
    ("name", "quirk"),
    [
        ("tool_choice ignored", 'change(ToolQuirks, choice=frozenset({"auto", "named", "none"}))'),
        ("schema ignored", 'change(SchemaQuirks, output="json_object")'),
        ("stop ignored", 'change(SettingQuirks, unsupported=frozenset({"stop"}))'),
        ("limit of another name", 'change(SettingQuirks, max_tokens_field="max_completion_tokens")'),
        ("stop unknown", 'change(Quirks, finish_reasons={"done": "stop"})'),
        ("reasoning in the text", 'change(ReasoningQuirks, tags="tags", tag="think")'),
        ("setting refused", 'change(SettingQuirks, unsupported=frozenset({"seed"}))'),
    ],
)
async def test_finding_proposes_a_quirk(name, quirk):
    defect, probe, *_ = DEFECTS[name]
    report = await checked(defect, [probe])
    assert [one.expression for one in report.quirks] == [quirk]
    eval(quirk, vars(openai_chat).copy())


@pytest.mark.parametrize(
    ("field", "quirk"),
    [
        ("stream_options", "change(SettingQuirks, stream_options=False)"),
        ("max_tokens", 'change(SettingQuirks, max_tokens_field="max_completion_tokens")'),
    ],
)
async def test_refused_plain_question_is_broken(field, quirk):
    """No probe is unsupported: nothing works, and the other probes are not asked."""
    report = await checked(Defect(request=refusing(field, f'"{field}"')), [])
    by_status = {status: {f.probe for f in report.findings if f.status == status} for status in STATUSES}
    assert by_status["broken"] == {"text"}
    assert by_status["unsupported"] == set()
    assert "stop" in by_status["skipped"]
    assert [one.expression for one in report.quirks] == [quirk]
    assert report.requests <= 2


async def test_quirks_of_one_field_are_merged():
    def both(body):
        body.pop("tool_choice", None)
        return refusing("seed", '"seed"')({k: v for k, v in body.items() if k != "stop"})

    probes = ["stop", "settings", "tool-required", "tool-named"]
    report = await checked(Defect(request=both), probes)
    assert [one.expression for one in report.quirks] == [
        'change(SettingQuirks, unsupported=frozenset({"seed", "stop"}))',
        'change(ToolQuirks, choice=frozenset({"auto", "none"}))',
    ]
