"""An agent: one stream of events over all steps, including tool results.

The agent calls the model, runs the tool calls, and repeats until no calls remain. Steps, calls and
results arrive as events between the text, so one loop displays all of them.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from _arguments import model

import llmstream as ls


@ls.tool
async def clock(city: str) -> dict[str, str]:
    """Tell the time in a city, as UTC.

    Args:
        city: its English name
    """
    return {"city": city, "utc": f"{datetime.now(UTC):%H:%M}"}


async def main(spec: str) -> None:
    agent = ls.Agent(spec, tools=[clock], instructions="Use the clock.", max_steps=5)
    async with agent.stream("What time is it in Oslo?") as run:
        async for event in run:
            match event:
                case ls.StepStart(step):
                    print(f"[step {step}]")
                case ls.TextDelta(text):
                    print(text, end="", flush=True)
                case ls.TextEnd():
                    print()
                case ls.ToolCall(name, arguments):
                    print(f"  calls {name}({arguments})")
                case ls.ToolResult(result, _, name):
                    print(f"  {name} gave {result}")
                case ls.Finish(reason, usage):
                    print(f"[{reason}: {usage.total_tokens} tokens in {run.step + 1} steps]")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
