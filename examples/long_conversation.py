"""Context effects: what the model sees of a long conversation, while the history stays complete.

Effects are functions from messages to messages. None of them separates a call from its result. The
output is what the model sees after fifty turns with a tool call in each.
"""

from __future__ import annotations

import asyncio

from _arguments import model

import llmstream as ls
from llmstream.agent.context import applied, cut_tool_results, sliding_window, summarise, token_budget


@ls.tool
async def archive(year: int) -> str:
    """Fetch the records of a year."""
    return f"the records of {year}: " + "wheat, rye, barley; " * 500


def talk() -> ls.Chat:
    """Fifty turns, in each a call with a long result."""
    chat = ls.Chat(ls.Message.system("You are an archivist."))
    for year in range(1900, 1950):
        call = ls.chats.ToolCall(f"call_{year}", "archive", f'{{"year":{year}}}')
        chat.append(ls.Message.user(f"What was harvested in {year}?"))
        chat.append(ls.Message.assistant(call))
        chat.append(ls.Message.tool([ls.chats.ToolResult(call.id, "wheat, rye, barley; " * 500)]))
        chat.append(ls.Message.assistant("Wheat, rye and barley."))
    return chat


def told(what: str, messages: list[ls.Message]) -> None:
    calls = [call.id for message in messages for call in message.tool_calls]
    results = [result.tool_call_id for message in messages for result in message.tool_results]
    size = sum(len(part.content) for m in messages for part in m.tool_results)
    print(f"{what:14} {len(messages):4} messages, {size:7} characters of results, whole: {calls == results}")


async def main(spec: str) -> None:
    chat = talk()
    told("all", chat.messages())
    told("window", await applied(chat.messages(), [sliding_window(turns=5)]))
    told("short results", await applied(chat.messages(), [cut_tool_results(200)]))
    told("budget", await applied(chat.messages(), [token_budget(10_000)]))

    effects = [cut_tool_results(200), summarise(spec, when_tokens_over=2_000, keep_turns=3)]
    agent = ls.Agent(spec, name="archivist", tools=[archive], context_effects=effects)
    chat.append(ls.Message.user("And in 1950?"))
    shown = await applied(chat.messages(), effects)
    told("summarised", shown)
    answer = await agent.respond(chat)
    print("answer:", answer.text[:40])
    print("the chat keeps", len(chat), "messages")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
