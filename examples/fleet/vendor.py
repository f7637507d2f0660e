"""The vendor: a simulator that enforces a rate limit over all of its clients."""

from __future__ import annotations

import argparse
import asyncio

from llmstream.request import Request
from llmstream.simulator.script import Call, Pace
from llmstream.testing import Simulator, Turn, VendorLimits

PER_MINUTE = 150
"""Requests that the vendor admits a minute, from all workers together."""

_FAST = Pace(first_s=0.1, delta_s=0.02)


def script(request: Request) -> Turn:
    """What the model says next. It depends on the conversation alone, so it is the same in each worker."""
    if not request.tools:  # the question of the tool `freight`
        city = request.messages[-1].text.rpartition(" ")[2].strip("?")
        return Turn(text=f"{10 + len(city)} euros", pace=Pace(first_s=0.5))
    order, city = request.messages[0].text.removeprefix("Ship ").rstrip(".").split(" to ")
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    results = [
        (names[result.tool_call_id], result)
        for message in request.messages
        for result in message.tool_results
    ]
    if not results:
        calls = (Call("freight", {"city": city}), Call("pack", {"items": 3}))
        return Turn(text=f"I pack {order} and ask for the freight.", calls=calls, pace=_FAST)
    pay = Turn(text="Now I pay.", calls=(Call("pay", {"order": order, "euros": 20}),), pace=_FAST)
    match results[-1]:
        case ("pay", result) if result.is_error:  # its process died; nobody but the bank knows more
            find = (Call("find_payment", {"order": order}),)
            return Turn(text="Has it been paid? I ask the bank.", calls=find, pace=_FAST)
        case ("pay", _):
            return Turn(text=f"{order} is packed, paid and on its way to {city}.", pace=_FAST)
        case ("find_payment", result) if result.content != "not paid":
            return Turn(text=f"{order} is packed, was paid and is on its way to {city}.", pace=_FAST)
        case _:
            return pay


async def main(port: int) -> None:
    limits = VendorLimits(requests_per_minute=PER_MINUTE)
    async with Simulator(script, limits=limits, host="0.0.0.0", port=port, allow_remote=True) as vendor:
        print(f"the vendor listens at {vendor.url}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9000)
    asyncio.run(main(parser.parse_args().port))
