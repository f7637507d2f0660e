"""What a broken connection is reported as."""

from __future__ import annotations

import socket

import aiohttp
import pytest
from aiohttp.client_reqrep import ConnectionKey

import llmstream as ls
from llmstream.simulator import Cut, Script, Simulator, Turn
from llmstream.transport.failures import typed_failure


async def test_cut_response_hides_aiohttps_message():
    script = Script((Turn(text="one two three four", fault=Cut(after_events=4)),))
    async with Simulator(script) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="k")
        with pytest.raises(ls.ConnectionLost) as raised:
            await model.stream("Count").collect()
    assert str(raised.value) == "openai: the connection to 127.0.0.1 closed in the middle of the answer"


def test_unresolved_host_may_be_no_network():
    key = ConnectionKey("api.acme.example", 443, True, True, None, None, None)
    unknown = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    error = typed_failure(aiohttp.ClientConnectorDNSError(key, unknown), "api.acme.example", answered=False)
    assert isinstance(error, ls.ConnectionFailed)
    assert "Check the network connection and base_url, and set HTTPS_PROXY" in str(error)
