"""What a broken connection is reported as."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.simulator import Cut, Script, Simulator, Turn


async def test_cut_response_hides_aiohttps_message():
    script = Script((Turn(text="one two three four", fault=Cut(after_events=4)),))
    async with Simulator(script) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")
        with pytest.raises(ls.ConnectionLost) as raised:
            await model.stream("Count").collect()
    assert str(raised.value) == "openai: the connection to 127.0.0.1 closed in the middle of the answer"
