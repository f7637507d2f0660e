"""A terminal program over a stream: next, current, error, messages, call_tools.

`next()` is false when this response is over. Then the program checks for an error and runs the tools;
without calls, the conversation is done. The program never builds messages from fragments: the stream
has the complete conversation.
"""

from __future__ import annotations

import asyncio
import tempfile

from _arguments import SCRIPTS, model

import llmstream as ls
from llmstream.chats import ChatCache
from llmstream.tools import render_statuses


@ls.tool
def weather(city: str) -> str:
    """Tell the weather of a city."""
    if city == "Atlantis":
        raise LookupError("no such city on the map")
    return f"{city}: -2 °C, light snow"


async def update(stream: ls.EventStream) -> tuple[str, bool]:
    """One turn of the program's loop: the text to print, and whether the conversation is done."""
    if await stream.next():
        match stream.current:
            case ls.TextDelta(text):
                return text, False
        return "", False
    if stream.error is not None:
        return f"\n{stream.error}", True
    statuses = await stream.call_tools()
    return (f"\n\n{render_statuses(statuses)}\n", False) if statuses else ("\n", True)


async def main(spec: str) -> None:
    prompt = "How is the weather in Oslo, and how in Atlantis?"
    async with ls.stream(spec, prompt, tools=[weather], errors="events") as stream:
        done = False
        while not done:
            text, done = await update(stream)
            print(text, end="", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        cache = ChatCache(folder)
        cache.write("weather", ls.Chat(*stream.messages()))
        print("cached:", *[f"{message.role}" for message in cache.read("weather").messages()])


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'two_calls.json'}")))
