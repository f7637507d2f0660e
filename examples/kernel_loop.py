"""A loop over raw chunks, which assembles the fragments of tool calls by itself.

`tools_stream` yields chunks in the shape of Chat Completions as they arrive, from any provider. The
first fragment of a call has id and name, later ones only arguments; `index` names the call.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from _arguments import SCRIPTS, model

import llmstream as ls
from llmstream import chats
from llmstream.chunks import MockModel, StreamingChunk
from llmstream.chunks import ToolCall as Fragment
from llmstream.tools import run_calls

MAX_ITERATIONS = 3


class Agent(Protocol):
    """What the loop needs of a model; a `Model` has it, and so has the mock of a test."""

    def tools_stream(
        self, messages: list[ls.Message], tools: list[ls.Tool], /
    ) -> AsyncIterator[StreamingChunk]:
        """The chunks of one response."""
        ...


@ls.tool
async def weather(city: str) -> str:
    """Tell the weather of a city."""
    if city == "Atlantis":
        raise LookupError("no such city on the map")
    return f"{city}: -2 °C, light snow"


def assembled(fragments: Iterable[Fragment]) -> list[chats.ToolCall]:
    """Complete calls, in the order of their indexes."""
    ids: dict[int, str] = {}
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for fragment in fragments:
        at = fragment.index or 0
        ids[at] = ids.get(at) or fragment.id
        names[at] = names.get(at) or fragment.name
        texts[at] = texts.get(at, "") + fragment.arguments
    return [chats.ToolCall(ids[at], names[at], texts[at] or "{}") for at in sorted(ids)]


async def run(agent: Agent, prompt: str) -> list[ls.Message]:
    messages = [ls.Message.user(prompt)]
    for iteration in range(MAX_ITERATIONS):
        content, fragments = "", list[Fragment]()
        async for chunk in agent.tools_stream(messages, [weather]):
            content += chunk.content
            fragments += chunk.tool_calls or ()
            if chunk.error is not None:
                raise RuntimeError(chunk.error.message)
        calls = assembled(fragments)
        said = [chats.Text(content)] if content else []
        messages.append(ls.Message.assistant(*said, *calls))
        print(f"{iteration}: {content!r}, {len(fragments)} fragments of {len(calls)} calls")
        if not calls:
            return messages
        statuses = await run_calls(calls, [weather])
        for status in statuses:
            print("  ", status.error or status.result.content)
        messages.append(ls.Message.tool([status.result for status in statuses]))
    raise RuntimeError("too many iterations")


async def main(spec: str) -> None:
    await run(ls.Model(spec), "How is the weather in Oslo, and how in Atlantis?")
    mock = MockModel.from_deltas(
        [[Fragment("a", "weather", '{"city":', index=0)], [Fragment(arguments='"Lima"}', index=0)]]
    )
    try:
        await run(mock, "And in Lima?")
    except RuntimeError as error:  # a mock says the same each time
        print(error)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'two_calls.json'}")))
