"""Where a conversation is written: its own file, and the last one of all. Nothing is overwritten unasked."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmstream.chats import Chat, Message
from llmstream.cli.state_folder import last_conversation
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError

__all__ = ["Saving", "check_free", "load_chat"]

_MODEL: Final = "llmstream.model"


@dataclass
class Saving:
    """Writes a conversation after each turn.

    path:  its own file; None where it has none
    model: whom it is with, noted in it, so that it goes on with the same; "" where that is not to be noted
    """

    path: str | None = None
    model: str = ""

    def save(self, chat: Chat) -> None:
        """Writes the conversation.

        raises: InvalidRequest where its own file cannot be written
        """
        if self.model and len(chat):
            *before, last = chat.messages()
            chat = Chat(*before, last.with_meta(_MODEL, self.model))
        last_path = last_conversation()
        if last_path is not None:
            try:
                chat.save(last_path)
            except (OSError, LLMStreamError):  # nobody asked for it
                pass
        if self.path is not None:
            try:
                chat.save(self.path)
            except OSError as error:
                raise InvalidRequest(f"cannot write {self.path}: {error.strerror or error}") from None


def check_free(path: str, *, force: bool, how: str = "") -> None:
    """Checks a file that is to be written, before anyone is asked anything.

    how:    another remedy where the file is there already
    raises: InvalidRequest where it cannot be written, or holds something and `force` is not given
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidRequest(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise InvalidRequest(f"cannot write {path}: it is a folder, or its folder is not yours to write")
    if not force and os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path)):
        remedy = how or f"Go on with it: --continue {path}. Replace it: add --force."
        raise InvalidRequest(f"{path} exists already. {remedy}")


def load_chat(path: str | Path) -> tuple[list[Message], str]:
    """A saved conversation, and the model it was with; "" where that is not noted.

    raises: InvalidRequest where there is none
    """
    try:
        messages = Chat.load(path).messages()
    except FileNotFoundError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}. A new conversation is saved with --save {path}."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise InvalidRequest(error.message) from None
    notes = (message.metadata or {} for message in reversed(messages))
    model = next((note[_MODEL] for note in notes if isinstance(note.get(_MODEL), str)), "")
    return messages, model
