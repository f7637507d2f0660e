"""`llmstream chat`: one answer, or a conversation."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import partial
from typing import Any

from llmstream.agent import Agent
from llmstream.chats import Chat, Message, Role
from llmstream.cli.asking import Outcome, ask
from llmstream.cli.exits import FINE, INTERRUPTED, exit_status
from llmstream.cli.providers import is_set
from llmstream.cli.show import show_for
from llmstream.cli.terminal import complain, typed
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.providers.registry import all_providers
from llmstream.streams import Model

__all__ = ["configure", "run"]

_EPILOG = """\
The prompt is PROMPT, what is piped in, or both: PROMPT, an empty line, the input. Without
either, on a terminal, a conversation begins; /help lists what one can say in it.

In a pipe only the answer's text goes to standard output, as it streams and as the model wrote
it. On a terminal it is rendered, and cleaned of control sequences.

Ctrl-C stops an answer and keeps what came. Keys are read from the environment: llmstream providers.

exit status: 0 fine, 2 wrong usage, 3 the stream ended in an error, 130 stopped with Ctrl-C,
141 the reader of the pipe left

examples:
  llmstream chat -m sim:demo "Hello"                          no key, no network
  llmstream chat -m anthropic:claude-sonnet-4-5 "Why is the sky blue?"
  git diff | llmstream chat -m ollama:llama3.2 "Write a commit message" > message.txt
  llmstream chat -m openai:gpt-5-mini --save talk.json        a conversation, kept in a file
  llmstream chat -m openai:gpt-5-mini --continue talk.json "And at night?"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("prompt", metavar="PROMPT", nargs="*", help="what to ask; several words need no quotes")
    add("-m", "--model", metavar="PROVIDER:MODEL", help="whom to ask; by default $LLMSTREAM_MODEL")
    add("--system", metavar="TEXT", help="a system prompt")
    add("--max-tokens", metavar="N", type=int, help="the longest answer, in tokens")
    add("--temperature", metavar="T", type=float, help="how freely to sample")
    add("--reasoning", metavar="EFFORT", help="none, minimal, low, medium, high, or a budget in tokens")
    add("--tools", choices=["demo"], help="offer tools: demo is a clock and an invented weather report")
    add("--base-url", metavar="URL", help="another address, where the vendor's paths begin")
    add("--save", metavar="FILE", help="write the conversation to a file, after each turn")
    add("--continue", dest="continue_from", metavar="FILE", help="go on with a saved conversation")
    add("--no-color", dest="color", action="store_false", help="no colours (also: NO_COLOR=1)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--show-reasoning",
        dest="reasoning_shown",
        action="store_true",
        default=None,
        help="show reasoning: the default on a terminal; in a pipe it goes to standard error",
    )
    shown.add_argument(
        "--hide-reasoning", dest="reasoning_shown", action="store_false", help="do not show reasoning"
    )


def run(arguments: argparse.Namespace) -> int:
    """Asks once, or talks."""
    agent = _agent(arguments)
    chat = _history(arguments)
    _check_save(arguments.save)
    prompt = _prompt(arguments.prompt)
    show = partial(show_for, sys.stdout, reasoning=arguments.reasoning_shown, color=arguments.color)
    if prompt is None:
        from llmstream.cli.conversation import Conversation

        agent.model.provider.key(None)  # without one there is nothing to talk to
        return Conversation(agent, chat, show, save_to=arguments.save).run()
    outcome = asyncio.run(ask(agent, [*chat, Message.user(prompt)], show))
    if arguments.save:
        save_chat(Chat(*outcome.messages), arguments.save)
    return _status(outcome, arguments.save)


def save_chat(chat: Chat, path: str) -> None:
    """Writes a conversation to a file.

    raises: InvalidRequest where it cannot be written
    """
    try:
        chat.save(path)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}") from None


def _status(outcome: Outcome, saved_to: str | None) -> int:
    if outcome.error is not None:
        complain(str(outcome.error))
        return exit_status(outcome.error)
    if outcome.stopped:
        complain(f"stopped; what came is kept{f' in {saved_to}' if saved_to else ''}")
        return INTERRUPTED
    return FINE


def _agent(arguments: argparse.Namespace) -> Agent:
    options: dict[str, Any] = {}
    if arguments.max_tokens is not None:
        options["max_output_tokens"] = arguments.max_tokens
    if arguments.temperature is not None:
        options["temperature"] = arguments.temperature
    if arguments.reasoning is not None:
        effort = arguments.reasoning
        options["reasoning"] = int(effort) if effort.isdecimal() and len(effort) < 10 else effort
    if arguments.tools:
        from llmstream.cli.demo_tools import DEMO_TOOLS

        options["tools"] = DEMO_TOOLS
    spec = arguments.model or os.environ.get("LLMSTREAM_MODEL") or ""
    if not spec:
        raise InvalidRequest(_no_model())
    return Agent(Model(spec, base_url=arguments.base_url), **options)


def _no_model() -> str:
    ready = [p.name for p in all_providers() if any(map(is_set, (*p.key_env, *p.token_env)))]
    keys = f"Keys are set for {', '.join(ready)}. " if ready else ""
    return (
        f"no model: pass -m provider:model or set LLMSTREAM_MODEL. {keys}"
        "Without a key, try -m sim:demo, a local -m ollama:MODEL, or `llmstream demo`."
    )


def _history(arguments: argparse.Namespace) -> Chat:
    """The conversation so far: the saved one, and the system prompt first."""
    messages: list[Message] = []
    if arguments.continue_from:
        try:
            messages = Chat.load(arguments.continue_from).messages()
        except OSError as error:
            raise InvalidRequest(
                f"cannot read {arguments.continue_from}: {error.strerror or error}"
            ) from None
        except DecodeError as error:
            raise InvalidRequest(error.message) from None
    if arguments.system:
        messages = [m for m in messages if m.role != Role.SYSTEM]
        messages.insert(0, Message.system(typed(arguments.system)))
    return Chat(*messages)


def _check_save(path: str | None) -> None:
    """A file that cannot be written is told before the model is asked."""
    if path is None:
        return
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidRequest(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise InvalidRequest(f"cannot write {path}: it is a folder, or its folder is not yours to write")


def _prompt(words: list[str]) -> str | None:
    """What to ask; None for a conversation.

    raises: InvalidRequest where there is nothing to ask and nobody to talk to
    """
    parts = [typed(" ".join(words))]
    piped = sys.stdin is not None and not sys.stdin.isatty()
    if piped:
        parts.append(sys.stdin.buffer.read().decode("utf-8", "replace"))
    prompt = "\n\n".join(part.rstrip() for part in parts if part.strip())
    if prompt:
        return prompt
    if piped or sys.stdin is None or not sys.stdout.isatty():
        raise InvalidRequest("the prompt is empty. Pass it as an argument, or pipe it in.")
    return None
