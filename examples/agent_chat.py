"""A chat with an agent over several turns, stored in a Chat.

An agent has no state between runs and does not append to the Chat: the program adds the run's
messages when the run is over. The instructions are sent once, even if the conversation already
begins with them.
"""

from __future__ import annotations

import asyncio

from _arguments import model

import llmstream as ls

PROMPTS = ("What time is it in Oslo?", "And in Lima?", "Thank you.")


async def clock(city: str) -> str:
    """Tell the time in a city."""
    return {"Oslo": "09:30", "Lima": "03:30"}.get(city, "nobody knows")


async def main(spec: str) -> None:
    agent = ls.Agent(spec, tools=[clock], instructions="Answer in one sentence.")
    chat = ls.Chat()
    for prompt in PROMPTS:
        print(f"> {prompt}")
        chat.append(ls.Message.user(prompt))
        async with agent.stream(chat) as run:
            async for event in run:
                if isinstance(event, ls.TextDelta):
                    print(event.delta, end="", flush=True)
        print("\n")
        chat.replace(*run.messages())  # the whole conversation, with the calls and their results
    print(f"{len(chat)} messages, {sum(m.role == 'system' for m in chat.messages())} of them the system's")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
