"""A conversation of several turns, stored in a Chat.

A stream reads the Chat and does not append to it. The program appends the response when it is
complete, so a turn that fails leaves the conversation unchanged.
"""

from __future__ import annotations

import asyncio

from _arguments import model

import llmstream as ls

PROMPTS = ("My name is Ada.", "What is a stream?", "What was my name?")


async def main(spec: str) -> None:
    chat = ls.Chat(ls.Message.system("Answer in one sentence."))
    for prompt in PROMPTS:
        print(f"> {prompt}")
        chat.append(ls.Message.user(prompt))
        async with ls.stream(spec, chat) as stream:
            async for text in stream.text_deltas():
                print(text, end="", flush=True)
            chat.append(stream.message)
        print("\n")
    print(f"{len(chat)} messages; the last is the {chat.at(len(chat) - 1).role}'s")


if __name__ == "__main__":
    asyncio.run(main(model(__doc__)))
