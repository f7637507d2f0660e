"""`llmstream demo`: from nothing to a stream, a call and an answer."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from llmstream.cli import demo, main
from llmstream.cli.config import SIMULATED
from llmstream.cli.tool_sources import DEMO_TOOLS, clock, weather
from llmstream.simulator import Pace


@pytest.mark.parametrize("dialect", list(SIMULATED))
def test_demo_thinks_and_calls_per_dialect(dialect, capsys, monkeypatch):
    monkeypatch.setattr(demo, "PACE", Pace())
    assert main(["demo", "--dialect", dialect]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    wanted = [
        "(thinking) The user asks for",
        "Let me look that up.",
        'weather({"city":"Oslo"})',
        "> Ran tool: `",  # which of the two ends first is theirs to settle
        "Outside it is **-2 °C** with light snow",
        "to first token",
        "  StreamStart",
        "  ReasoningDelta      'The'",
        "  … ",
        "  ToolCall            'weather'",
        "  Finish              'stop'",
        "llmstream chat -m sim:demo",
    ]
    places = [out.index(text) for text in wanted]
    assert places == sorted(places)
    assert {"> Ran tool: `weather`", "> Ran tool: `clock`"} <= set(out.splitlines())
    assert "warning" not in out.partition("That was a stream")[0]
    assert "warnings=" not in out
    events = out.partition("That was a stream")[2].partition("Next steps")[0]
    assert len(events.splitlines()) <= 30
    kinds = [line.split()[0] for line in events.splitlines() if line.startswith("  ") and "…" not in line[:4]]
    assert len(kinds) == len(set(kinds))


def test_more_of_the_events_can_be_had(capsys, monkeypatch):
    monkeypatch.setattr(demo, "PACE", Pace())
    assert main(["demo", "--events"]) == 0
    out = capsys.readouterr().out
    assert out.count("  ToolResult  ") == 2
    assert "warnings=" not in out


@pytest.mark.slow
def test_process_in_a_pipe_ends_in_seconds():
    done = subprocess.run(
        [sys.executable, "-m", "llmstream", "demo"], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, b"")


def test_it_needs_neither_rich_nor_a_key():
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "from llmstream.simulator import Pace\n"
        "from llmstream.cli import demo, main; demo.PACE = Pace()\n"
        "sys.exit(main(['demo', '--no-color']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "Next steps" in done.stdout.decode()


async def test_the_tools_are_real():
    names = [tool.name for tool in DEMO_TOOLS]
    assert names == ["weather", "clock"]
    outcome = await weather.run('{"city": "lima", "unit": "fahrenheit"}')
    assert msgspec.json.decode(outcome.content)["temperature"] == "66 °F"
    assert (await weather.run('{"city": "Atlantis"}')).error is not None
    assert (await clock.run('{"utc_offset_hours": 5.75}')).content.endswith("+05:45")
    assert (await clock.run('{"utc_offset_hours": 99}')).error is not None
