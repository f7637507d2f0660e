"""WebSockets: one socket for the steps of an agent, and steering a model while it responds.

Each step sends only new messages; the server has the rest. `steer` interrupts a response without losing
its text: the stream continues with the response to the input.
"""

from __future__ import annotations

import asyncio

from _arguments import SCRIPTS, model

import llmstream as ls


def clock(city: str) -> str:
    """Say what time it is in a city."""
    return f"12:00 in {city}"


async def ask_an_agent(connected: ls.Model) -> None:
    run = ls.Agent(connected, tools=[clock]).stream("What time is it in Oslo?")
    answer = await run.collect()
    print(f"{len(run.steps)} steps: {answer.text}")


async def interrupt(connected: ls.Model) -> None:
    stream = connected.stream("Tell me a story about a river.")
    steered = False
    async for event in stream:
        match event:
            case ls.TextDelta(text):
                print(text, end="", flush=True)
                if not steered and len(stream.text) > 40:
                    steered = True
                    await stream.steer("Stop. Finish it in one sentence, in French.")
            case ls.Custom("openai.steering"):
                print("\n-- the model has heard: in French --")
    print(f"\n{stream.finish_reason}; one message of {len(stream.message.parts)} parts")


async def main(spec: str) -> None:
    async with ls.Model(spec).connect() as connected:
        await ask_an_agent(connected)
        await interrupt(connected)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim-openai-responses:{SCRIPTS / 'river.json'}")))
