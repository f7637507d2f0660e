"""Saves a conversation, loads it, and continues it, optionally with another vendor.

The saved form is a versioned JSON document; newer versions read every older one. Data that a vendor
wants back verbatim, such as signatures of its reasoning, is saved with it.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from _arguments import models

import llmstream as ls


async def ask(spec: str, chat: ls.Chat, prompt: str) -> None:
    """One turn: appends the prompt and the response to the chat."""
    chat.append(ls.Message.user(prompt))
    chat.append(await ls.stream(spec, chat).collect())


async def main(first: str, second: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "talk.json"

        chat = ls.Chat()
        await ask(first, chat, "Name a colour.")
        chat.save(path)
        print(f"saved {len(chat)} messages, {path.stat().st_size} bytes")

        resumed = ls.Chat.load(path)
        assert resumed.messages() == chat.messages()
        await ask(second, resumed, "And another one?")
        for message in resumed:
            print(f"{message.role}: {message.text.splitlines()[0]}")


if __name__ == "__main__":
    asyncio.run(main(*models(__doc__, "sim:demo", "sim-ollama:demo")))
