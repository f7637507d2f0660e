"""The state of an interactive conversation, and what commands do to it."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass, field

from llmstream.chats import Chat, Message, Part, Role, Text
from llmstream.cli.asking import Setup
from llmstream.cli.model_names import checked_model
from llmstream.cli.storage import Saving, last_conversation
from llmstream.errors import InvalidRequest

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
    def system(self) -> str:
        """The system prompt, or ""."""
        return self.chat.system_prompt() or ""

    def change_model(self, spec: str) -> None:
        """Switches to another model.

        raises: InvalidRequest for an unknown provider; MissingKey
        """
        setup = self.setup.with_model(checked_model(spec))
        setup.check_key()
        setup.agent()
        self.setup = setup
        self.saving = dataclasses.replace(self.saving, model=setup.stored_model)

    def change_system(self, text: str) -> None:
        """Replaces the system prompt; "" removes it."""
        rest = [message for message in self.chat.messages() if message.role != Role.SYSTEM]
        self.chat.replace(*([Message.system(text)] if text else []), *rest)

    def prompt(self, text: str) -> Message:
        """The next prompt with the waiting parts, which wait no longer."""
        parts, self.waiting = self.waiting, []
        self.is_unanswered = False
        return Message.user(*parts, *([text] if text else []))

    def unanswered_prompt(self) -> Message:
        """The prompt that `keep` kept, and the parts that were attached since."""
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
        """Starts a new conversation with the same system prompt; returns where the previous one is, or ""."""
        place = self.saving.path or ""
        last = last_conversation()
        if not place and self.saving.is_stored and last is not None:
            previous = last.with_name("previous.json")
            try:
                os.replace(last, previous)
                place = str(previous)
            # It was not written, or has been moved.
            except OSError:
                place = ""
        system = self.system
        self.chat.replace(*([Message.system(system)] if system else []))
        self.saving = dataclasses.replace(self.saving, path=None, is_stored=True)
        self.waiting.clear()
        self.draft = ""
        self.is_unanswered = False
        return place
