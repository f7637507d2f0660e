"""The tool loop, written by hand: read, run the calls, continue.

`call_tools()` runs the calls of the response and returns their statuses. Then the same stream
continues with the next response; an empty list means that the model is done. A tool that fails does
not fail the stream: the model reads the error.
"""

from __future__ import annotations

import asyncio

from _arguments import SCRIPTS, model

import llmstream as ls


@ls.tool
def weather(city: str) -> str:
    """Tell the weather of a city.

    Args:
        city: its English name
    """
    if city == "Atlantis":
        raise LookupError("no such city on the map")
    return f"{city}: -2 °C, light snow"


async def main(spec: str) -> None:
    prompt = "How is the weather in Oslo, and how in Atlantis?"
    async with ls.stream(spec, prompt, tools=[weather]) as stream:
        while True:
            async for text in stream.text_deltas():
                print(text, end="", flush=True)
            print()
            statuses = await stream.call_tools()
            if not statuses:
                break
            for status in statuses:
                print(status, end="")
        print(f"{stream.total_usage.output_tokens} tokens in all; the conversation:")
        for message in stream.messages():
            print(f"  {message.role:<10}{', '.join(part.part_kind for part in message.parts)}")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'two_calls.json'}")))
