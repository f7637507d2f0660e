"""`llmstream chat`: one answer, or a conversation."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from llmstream.chats import Chat, Message, Role
from llmstream.cli.asking import Asker, Outcome
from llmstream.cli.attachments import attached
from llmstream.cli.chat_setup import TOOL_SETS, Setup
from llmstream.cli.exits import FINE, INTERRUPTED, exit_status
from llmstream.cli.model_names import checked_model
from llmstream.cli.providers import is_set
from llmstream.cli.remedies import complaint
from llmstream.cli.saving import Saving, check_free, load_chat
from llmstream.cli.show import show_for
from llmstream.cli.state_folder import PromptHistory, last_conversation, state_file
from llmstream.cli.terminal import complain, typed
from llmstream.errors import InvalidRequest
from llmstream.providers.registry import all_providers

__all__ = ["configure", "run"]

_EPILOG = """\
The prompt is PROMPT, what is piped in, or both: PROMPT, an empty line, the input. Without
either, on a terminal, a conversation begins; /help lists its commands.

In a pipe only the answer's text goes to standard output, as it streams and as the model wrote
it. On a terminal it is rendered, and cleaned of control sequences.

Ctrl-C stops an answer and keeps what came. Keys are read from the environment: llmstream providers.

The last conversation and the prompts typed are stored in ~/.local/state/llmstream (or in
$XDG_STATE_HOME), readable by you alone; LLMSTREAM_HISTORY=off stores nothing.

exit status: 0 fine, 2 wrong usage, 3 the stream ended in an error, 130 stopped with Ctrl-C,
141 the reader of the pipe left

examples:
  llmstream chat -m sim:demo "Hello"                          no key, no network
  llmstream chat -m anthropic:claude-sonnet-4-5 "Why is the sky blue?"
  git diff | llmstream chat -m ollama:llama3.2 "Write a commit message" > msg
  llmstream chat -m openai:gpt-5-mini -a photo.jpg "What is this?"
  llmstream chat -c "And at night?"                           go on with the last conversation
  llmstream chat -m openai:gpt-5-mini --save talk.json        a conversation, saved in a file
  llmstream chat --continue talk.json "And at night?"         go on with it, in that file
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Describes the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("prompt", metavar="PROMPT", nargs="*", help="what to ask; several words need no quotes")
    add("-m", "--model", metavar="PROVIDER:MODEL", help="the model to ask; by default $LLMSTREAM_MODEL")
    add("--system", metavar="TEXT", help="a system prompt")
    add(
        "-a",
        "--attach",
        metavar="FILE",
        action="append",
        default=[],
        help="send a file or an address with the prompt: an image, a PDF, audio, a text; repeatable",
    )
    add("--schema", metavar="FILE", help="answer in JSON that fits the JSON schema in FILE")
    add("--max-tokens", metavar="N", type=int, help="maximum length of the answer, in tokens")
    add("--temperature", metavar="T", type=float, help="sampling temperature")
    add("--reasoning", metavar="EFFORT", help="none, minimal, low, medium, high, or a budget in tokens")
    add("--tools", choices=TOOL_SETS, help="offer tools: demo is a clock and an invented weather report")
    add("--base-url", metavar="URL", help="another address, where the vendor's paths begin")
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument(
        "-c", dest="continue_last", action="store_true", help="go on with the last conversation"
    )
    earlier.add_argument(
        "--continue",
        dest="continue_from",
        metavar="FILE",
        help="go on with a saved conversation, and save it there",
    )
    add("--save", metavar="FILE", help="save the conversation in a new file, after each turn")
    add("--force", action="store_true", help="let --save replace a file that exists")
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
    messages, noted_model = _earlier(arguments)
    setup = _setup(arguments, noted_model)
    saving = _saving(arguments, setup)
    parts = [attached(file) for file in arguments.attach]
    prompt = _prompt(arguments.prompt, has_parts=bool(parts))
    asker = Asker(
        partial(
            show_for,
            sys.stdout,
            reasoning=arguments.reasoning_shown,
            color=arguments.color,
            markdown=arguments.schema is None,
        )
    )
    if prompt is None:
        from llmstream.cli.conversation import Conversation
        from llmstream.cli.line_editor import line_editor

        setup.agent().model.provider.key(None)  # without one there is nothing to talk to
        editor = line_editor(PromptHistory(state_file("history.jsonl")))
        return Conversation(setup, Chat(*messages), asker, editor, saving=saving, waiting=parts).run()
    asked = [*messages, Message.user(*parts, *([prompt] if prompt else []))]
    agent = setup.agent(asker.observe)
    try:
        outcome = asyncio.run(asker.ask(agent, asked))
    except KeyboardInterrupt:
        outcome = asker.interrupted()
    came = len(outcome.messages) > len(asked)
    if came:
        saving.save(Chat(*outcome.messages))
    return _status(outcome, saving.path if came else None)


def _status(outcome: Outcome, saved_to: str | None) -> int:
    if outcome.error is not None:
        complain(complaint(outcome.error))
        return exit_status(outcome.error)
    if outcome.stopped:
        complain(f"stopped; what came is kept{f' in {saved_to}' if saved_to else ''}")
        return INTERRUPTED
    return FINE


def _setup(arguments: argparse.Namespace, noted_model: str) -> Setup:
    """Whom to ask, and how.

    noted_model: that of the conversation to go on with
    """
    options: dict[str, Any] = {}
    if arguments.max_tokens is not None:
        options["max_output_tokens"] = arguments.max_tokens
    if arguments.temperature is not None:
        options["temperature"] = arguments.temperature
    if arguments.reasoning is not None:
        effort = arguments.reasoning
        options["reasoning"] = int(effort) if effort.isdecimal() and len(effort) < 10 else effort
    if arguments.schema is not None:
        options["output"] = _schema(arguments.schema)
    spec = arguments.model or noted_model or os.environ.get("LLMSTREAM_MODEL") or ""
    if not spec:
        raise InvalidRequest(_no_model())
    return Setup(checked_model(spec), arguments.base_url, arguments.tools or "", options)


def _no_model() -> str:
    ready = [p.name for p in all_providers() if any(map(is_set, (*p.key_env, *p.token_env)))]
    keys = f"Keys are set for {', '.join(ready)}. " if ready else ""
    return (
        f"no model: pass -m provider:model or set LLMSTREAM_MODEL. {keys}"
        "Without a key, try -m sim:demo, a local -m ollama:MODEL, or `llmstream demo`."
    )


def _schema(file: str) -> dict[str, Any]:
    """A JSON schema from a file."""
    try:
        return msgspec.json.decode(Path(file).read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file} is no JSON schema: {error}") from None


def _earlier(arguments: argparse.Namespace) -> tuple[list[Message], str]:
    """The conversation so far, the system prompt first, and the model it was with."""
    messages: list[Message] = []
    model = ""
    if arguments.continue_last:
        last = last_conversation()
        if last is None or not last.exists():
            raise InvalidRequest(
                "there is no last conversation. Start one without -c, or name a file: --continue FILE."
            )
        messages, model = load_chat(last)
    elif arguments.continue_from:
        messages, model = load_chat(arguments.continue_from)
    if arguments.system:
        messages = [m for m in messages if m.role != Role.SYSTEM]
        messages.insert(0, Message.system(typed(arguments.system)))
    return messages, model


def _saving(arguments: argparse.Namespace, setup: Setup) -> Saving:
    """Where the conversation is written; a file that cannot be is reported before the model is asked."""
    path = arguments.save or arguments.continue_from
    if path is not None:
        own = arguments.continue_from is not None and _same(path, arguments.continue_from)
        check_free(path, force=own or arguments.force)
    return Saving(path, setup.noted_model)


def _same(one: str, other: str) -> bool:
    return one == other or (os.path.exists(one) and os.path.samefile(one, other))


def _prompt(words: list[str], *, has_parts: bool) -> str | None:
    """What to ask, "" where files alone do; None for a conversation.

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
        if has_parts:
            return ""
        raise InvalidRequest("the prompt is empty. Pass it as an argument, or pipe it in.")
    return None
