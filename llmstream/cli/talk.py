"""The state of an interactive conversation, and what commands do to it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from llmstream.chats import Chat, Message, Part, Role, Text
from llmstream.cli.model_names import checked_model
from llmstream.cli.storage import Saving
from llmstream.cli.stored_chats import name_of, note_model, stored_chat
from llmstream.cli.terminal import print_message
from llmstream.errors import InvalidRequest, LLMStreamError

if TYPE_CHECKING:
    from llmstream.cli.asking import Setup

__all__ = ["Talk"]


@dataclass
class Talk:
    """One conversation.

    waiting:       parts to send with the next prompt
    draft:         text of the last prompt that was taken back or not answered; `/edit` begins with it
    is_unanswered: whether the last prompt has no answer; `/retry` sends it, not the one before
    """

    setup: Setup
    chat: Chat
    saving: Saving
    waiting: list[Part] = field(default_factory=list)
    draft: str = ""
    is_unanswered: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether the conversation is in the store, or in a file."""
        return self.saving.path is not None or name_of(self.chat) is not None

    def begin(self, messages: list[Message]) -> Chat:
        """The chat, with the messages of a turn; one that can be stored no longer goes on in memory."""
        self.become(messages)
        return self.chat

    def become(self, messages: list[Message]) -> None:
        """Replaces the messages of the chat; what was there stays in the store, as a branch."""
        try:
            self.chat.replace(*messages)
        except LLMStreamError as error:
            print_message(f"this conversation is kept no longer: {error.message}")
            self.chat = Chat(*messages)

    def save(self) -> None:
        """Writes the file of the conversation, and notes its model in the store.

        raises: LLMStreamError if that fails
        """
        self.saving.save(self.chat)
        if name_of(self.chat) is not None:
            note_model(self.chat, self.setup.stored_model)

    @property
    def system(self) -> str:
        """The system prompt, or ""."""
        return self.chat.system_prompt() or ""

    def change_model(self, spec: str) -> None:
        """Switches to another model.

        raises: InvalidRequest for an unknown provider; MissingKey
        """
        setup = self.setup.with_model(checked_model(spec))
        # Before anything changes: a conversation without a key could not go on.
        setup.check_key()
        setup.agent()
        self.setup = setup
        self.saving = dataclasses.replace(self.saving, model=setup.stored_model)

    def change_system(self, text: str) -> None:
        """Replaces the system prompt; "" removes it."""
        rest = [message for message in self.chat.messages() if message.role != Role.SYSTEM]
        self.become([*([Message.system(text)] if text else []), *rest])

    def prompt(self, text: str) -> Message:
        """The next prompt with the waiting parts, which wait no longer."""
        parts, self.waiting = self.waiting, []
        self.is_unanswered = False
        return Message.user(*parts, *([text] if text else []))

    def unanswered_prompt(self) -> Message:
        """The prompt of `keep`, and the parts that were attached since."""
        text, self.draft = self.draft, ""
        return self.prompt(text)

    def last_prompt(self) -> tuple[list[Message], Message]:
        """The last prompt, and the messages before it.

        raises: InvalidRequest if there is none
        """
        messages = self.chat.messages()
        prompts = [number for number, message in enumerate(messages) if message.role == Role.USER]
        if not prompts:
            raise InvalidRequest("there is no earlier prompt in this conversation")
        return messages[: prompts[-1]], messages[prompts[-1]]

    def keep(self, prompt: Message) -> None:
        """Keeps an unanswered prompt: its files wait for the next one, its text for `/edit` and `/retry`."""
        self.is_unanswered = True
        self.draft = ""
        parts = list(prompt.parts)
        # The last part is what was typed; a prompt may also be files alone.
        last = parts[-1] if parts else None
        if isinstance(last, Text):
            self.draft = last.text
            del parts[-1]
        self.waiting = parts

    def start_over(self) -> str:
        """Starts a new conversation with the same system prompt; returns how to continue the previous one, or
        ""."""
        place, name = self.saving.path, name_of(self.chat)
        again = f"--continue {place}" if place else f"--chat {name}" if name else ""
        system = self.system
        self.chat = stored_chat(None, [Message.system(system)] if system else [])
        self.saving = dataclasses.replace(self.saving, path=None)
        self.waiting.clear()
        self.draft = ""
        self.is_unanswered = False
        return again
