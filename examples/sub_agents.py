"""Sub-agents as tools, and several agents in one chat.

A sub-agent is a tool. Its events arrive in the run above as progress of its call, so one loop displays
all agents; its tokens count in the run above.
"""

from __future__ import annotations

import asyncio

from _arguments import model

import llmstream as ls
from llmstream.agent import nested_event


@ls.tool
async def library(topic: str) -> str:
    """Look a topic up."""
    return "Goroutines are cheap; channels connect them."


async def ask_through_another(spec: str) -> None:
    researcher = ls.Agent(spec, name="researcher", tools=[library])
    tool = researcher.as_tool("research", "Finds out about a topic.")
    async with ls.Agent(spec, name="editor", tools=[tool]).stream("Concurrency in Go?") as run:
        async for event in run:
            inner = nested_event(event)
            who, said = ("editor", event) if inner is None else (inner.agent, inner.event)
            match said:
                case ls.ToolCall(name):
                    print(f"{who}: calls {name}")
                case ls.StepFinish(step, reason):
                    print(f"{who}: step {step} is over ({reason})")
    print(f"editor: {run.text}")
    print(f"{run.total_usage.total_tokens} tokens, the researcher's among them")


async def talk_in_one_chat(spec: str) -> None:
    chat = ls.Chat(ls.Message.new_text("user", ls.Role.USER, "Name a testing library."))
    for name in ("writer", "critic"):
        await ls.Agent(spec, name=name, instructions=f"You are the {name}.").respond(chat)
    for message in chat:
        print(f"{message.sender:7} {message.text.splitlines()[0]}")


async def main(spec: str) -> None:
    await ask_through_another(spec)
    await talk_in_one_chat(spec)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
