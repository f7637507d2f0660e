"""A simulator without defects: each dialect passes all probes."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import aiohttp
import msgspec
import pytest

import llmstream as ls
from llmstream.endpoint_check import PROBES, check_endpoint
from llmstream.middleware import log_calls, wrap
from llmstream.simulator import Obedient, Script, Simulator, Stall, Turn

DIALECTS = {
    "sim": {},
    "sim-anthropic": {},
    "sim-bedrock": {"reasoning": "unsupported", "reasoning-echo": "skipped"},
    "sim-cohere": {},
    "sim-gemini": {},
    "sim-gemini-interactions": {},
    "sim-mistral": {},
    "sim-ollama": {"tool-required": "unsupported", "tool-named": "unsupported"},
    "sim-openai-responses": {"stop": "unsupported"},
}
"""What each wire cannot express, or a model without a known family is not asked for."""


@pytest.mark.parametrize("provider", sorted(DIALECTS))
async def test_clean_endpoint_has_no_finding(provider):
    report = await check_endpoint(f"{provider}:probe")
    expected = {"wrong-key": "skipped", **DIALECTS[provider]}
    assert {f.probe: f.status for f in report.findings if f.status != "ok"} == expected
    assert [f.probe for f in report.findings] == [probe.name for probe in PROBES]
    assert report.quirks == report.broken == ()
    assert report.address is None


async def test_keys_are_checked_where_needed():
    async with Simulator(Obedient(), api_keys=["right"]) as simulator:
        model = ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="right")
        report = await check_endpoint(model, only=["wrong-key"])
    (finding,) = report.findings
    assert finding.status == "ok"
    assert finding.detail.startswith("401")
    assert "not-a-key" not in report.to_json().decode()


async def test_wrong_key_stops_the_check():
    """After a refused key no further request is sent."""
    async with Simulator(Obedient(), api_keys=["right"]) as simulator:
        model = ls.Model("openai:any", base_url=f"{simulator.url}/v1", api_key="wrong")
        report = await check_endpoint(model)
    statuses = {finding.probe: finding.status for finding in report.findings}
    assert statuses.pop("model") == statuses.pop("text") == "broken"
    assert set(statuses.values()) == {"skipped"}
    assert report.requests <= 2


async def test_only_named_probes_run():
    report = await check_endpoint("sim:probe", only=["usage", "stop"])
    assert [finding.probe for finding in report.findings] == ["usage", "stop"]
    assert report.requests == 2


async def test_unknown_probe_is_refused():
    with pytest.raises(ls.InvalidRequest, match="no probe 'tolls'"):
        await check_endpoint("sim:probe", only=["tolls"])


async def test_probes_run_side_by_side():
    report = await check_endpoint("sim:probe", concurrency=8)
    assert {f.status for f in report.findings} == {"ok", "skipped"}
    assert [f.probe for f in report.findings] == [probe.name for probe in PROBES]


async def test_progress_names_each_probe():
    noted = []
    await check_endpoint("sim:probe", only=["text", "stop"], progress=lambda *what: noted.append(what))
    assert [name for name, findings in noted if findings is None] == ["text", "stop"]
    assert [findings[0].status for _, findings in noted if findings] == ["ok", "ok"]


async def test_report_is_a_json_document():
    report = await check_endpoint("sim:probe", only=["text"])
    document = msgspec.json.decode(report.to_json())
    assert document["format"] == "llmstream-check"
    assert document["findings"] == [
        {"probe": "text", "status": "ok", "detail": "149 characters, finish reason stop"}
    ]


async def test_session_of_the_caller_stays_open():
    """Its connections cannot be traced, so their reuse is not reported."""
    async with Simulator(Obedient()) as simulator, aiohttp.ClientSession() as session:
        model = ls.Model("sim:m", base_url=f"{simulator.url}/v1", session=session)
        report = await check_endpoint(model, only=["text", "keep-alive", "tools"])
        assert not session.closed
    assert [finding.status for finding in report.findings] == ["ok", "skipped", "ok"]


async def test_stopped_check_leaves_no_task():
    async with Simulator(Script((Turn(text="1", fault=Stall()),))) as simulator:
        model = ls.Model("sim:m", base_url=f"{simulator.url}/v1")
        check = asyncio.create_task(check_endpoint(model, only=["text"]))
        while not simulator.requests:
            await asyncio.sleep(0.01)
        check.cancel()
        with pytest.raises(asyncio.CancelledError):
            await check
        assert [task for task in asyncio.all_tasks() if task.get_name().startswith("check ")] == []


async def test_middleware_cannot_be_checked():
    with pytest.raises(ls.InvalidRequest, match="plain Model"):
        await check_endpoint(wrap("sim:probe", log_calls()))


def test_guide_describes_every_probe():
    guide = Path(__file__).parents[2] / "docs" / "guides" / "check.md"
    rows = re.findall(r"^\| `([\w-]+)` \|", guide.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [probe.name for probe in PROBES]
