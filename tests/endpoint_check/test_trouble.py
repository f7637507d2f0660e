"""Endpoints in trouble: rate limits, silence, cut bodies in every dialect, and frames of any shape."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from wiredefects.proxy import Defect, served

import llmstream as ls
from llmstream.endpoint_check import check_endpoint
from llmstream.simulator import Cut, Obedient, Refuse, Script, Simulator, Stall, Turn

DIALECTS = [
    "sim",
    "sim-anthropic",
    "sim-bedrock",
    "sim-cohere",
    "sim-gemini",
    "sim-gemini-interactions",
    "sim-mistral",
    "sim-ollama",
    "sim-openai-responses",
]
PATHS = {"sim": "/v1", "sim-openai-responses": "/v1", "sim-mistral": "/mistral"}
SHAPES = [5, "text", None, [], [5], [None], ["text"], [[1]], {}, {"a": 5}, [{"a": [5]}], True, -1.5]
"""What may stand anywhere in a frame."""


async def checked(simulator, provider, only, **options):
    path = PATHS.get(provider, "")
    model = ls.Model(f"{provider}:m", base_url=simulator.url + path, **options)
    return await check_endpoint(model, only=only)


@pytest.mark.parametrize("provider", DIALECTS)
async def test_cut_body_is_broken(provider):
    script = Script((Turn(text="1, 2, 3, 4, 5, 6", fault=Cut(after_events=5, clean=True)),))
    async with Simulator(script) as simulator:
        report = await checked(simulator, provider, ["text", "end"])
    assert [finding.status for finding in report.findings] == ["broken", "broken"]
    assert all("incomplete-stream" in finding.detail for finding in report.findings)


@pytest.mark.parametrize("provider", DIALECTS)
async def test_refused_tools_are_unsupported(provider):
    def script(request, number):
        refusal = Refuse(status=400, message="tools are not supported")
        return Turn(fault=refusal) if request.tools else Obedient().turn(request, number)

    async with Simulator(script) as simulator:
        report = await checked(simulator, provider, ["tools", "tool-parallel", "usage"])
    statuses = {finding.probe: finding.status for finding in report.findings}
    assert statuses == {"tools": "unsupported", "tool-parallel": "unsupported", "usage": "ok"}
    assert "tools are not supported" in report.findings[-1].detail


async def test_rate_limit_is_waited_for():
    def script(request, number):
        refused = Turn(fault=Refuse(status=429, retry_after_s=0.01))
        return refused if number < 2 else Obedient().turn(request, number)

    async with Simulator(script) as simulator:
        report = await checked(simulator, "sim", ["text"])
    assert [finding.status for finding in report.findings] == ["ok"]
    assert report.requests == 3


async def test_lasting_rate_limit_is_skipped():
    """It says nothing about the wire."""
    script = Script((Turn(fault=Refuse(status=429, retry_after_s=0.01)),) * 60)
    async with Simulator(script) as simulator:
        report = await checked(simulator, "sim", ["text", "stop", "schema", "tools", "wrong-model"])
    assert {finding.status for finding in report.findings} == {"skipped"}
    assert "refused for now: rate-limited (HTTP 429)" in report.findings[0].detail


async def test_silent_server_is_broken():
    script = Script((Turn(text="1, 2", fault=Stall(after_events=3)),))
    async with Simulator(script) as simulator:
        quick = ls.Deadlines(idle_s=0.2)
        report = await checked(simulator, "sim", ["text"], deadlines=quick)
    (finding,) = report.findings
    assert finding.status == "broken"
    assert finding.meaning == "A program waits until its deadline."


DEEP = '{"a":' * 100_000 + "1" + "}" * 100_000
"""Nested deeper than any parser follows."""


def deep_in(place):
    """A defect that puts DEEP there; its probe, and what it finds."""

    def changed(frames):
        key = {"arguments": "tool_calls", "text": "content"}[place]
        frame = next(frame for frame in frames if frame["choices"][0]["delta"].get(key))
        delta = frame["choices"][0]["delta"]
        if place == "text":
            delta[key] = DEEP
        else:
            delta[key][0]["function"]["arguments"] = DEEP
        last = next(frame for frame in frames if frame["choices"] and frame["choices"][0]["finish_reason"])
        return [frame, last]

    match place:
        case "frame":
            return Defect(body=lambda body: f"data: {DEEP}\n\n".encode() + body), "wire", ""
        case "error":
            refused = web.Response(status=404, text=DEEP, content_type="application/json")
            return Defect(error=lambda status, body: refused), "wrong-model", "not JSON"
        case "text":
            return Defect(frames=changed), "schema", "the JSON schema is ignored"
        case _:
            return Defect(frames=changed), "tools", "not a JSON object"


@pytest.mark.parametrize("place", ["frame", "error", "text", "arguments"])
async def test_deeply_nested_json_is_found(place):
    defect, probe, expected = deep_in(place)
    async with served(defect) as url:
        report = await check_endpoint(ls.Model("vllm:m", base_url=url, api_key="right"), only=[probe])
    details = [finding.detail for finding in report.findings]
    assert [detail for detail in details if "the probe failed" in detail] == []
    assert expected in " ".join(details)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["frame", "choices", "choice", "delta", "calls", "function", "usage"])
@pytest.mark.parametrize("shape", SHAPES, ids=repr)
async def test_no_shape_of_frames_fails_a_probe(place, shape):
    """Each probe has a finding of its own, whatever the frames hold."""

    def changed(body):
        frame = {"id": "1", "choices": [{"index": 0, "delta": {"tool_calls": [{"function": {}}]}}]}
        choice = frame["choices"][0]
        match place:
            case "frame":
                frame = shape
            case "choices" | "usage":
                frame[place] = shape
            case "choice":
                frame["choices"] = [shape]
            case "delta":
                choice["delta"] = shape
            case "calls":
                choice["delta"]["tool_calls"] = shape
            case "function":
                choice["delta"]["tool_calls"][0]["function"] = shape
        return f"data: {json.dumps(frame)}\n\n".encode() + body

    async with served(Defect(body=changed)) as url:
        model = ls.Model("vllm:m", base_url=url, api_key="right")
        report = await check_endpoint(model)
    assert [f.detail for f in report.findings if "the probe failed" in f.detail] == []
