"""`llmstream chat`: one answer, or an interactive conversation."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from functools import partial
from typing import Any, Final

from llmstream.chats import Chat, Message, Role
from llmstream.cli.arguments import (
    REASONING_HELP,
    add_tool_options,
    attached,
    count,
    decimal,
    effort,
    read_schema,
)
from llmstream.cli.asking import Approvals, Asker, Outcome, Setup
from llmstream.cli.config import MODEL_HELP, checked_model, default_model
from llmstream.cli.errors import INTERRUPTED, SUCCESS, error_message, exit_status
from llmstream.cli.outputs import JsonEvents, QuietAnswer
from llmstream.cli.providers import key_state
from llmstream.cli.storage import (
    PromptHistory,
    Saving,
    check_free,
    last_chat,
    load_chat,
    name_of,
    note_model,
    state_file,
    stored_chat,
)
from llmstream.cli.terminal import echo, print_message, typed
from llmstream.cli.tool_sources import ToolSources
from llmstream.display.plain import display_for
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.prices import estimated_price
from llmstream.providers.registry import all_providers

__all__ = ["configure", "run"]

# Of a name in the store.
_MAX_NAME: Final = 200

_EPILOG = """\
The prompt is PROMPT, standard input, or both: PROMPT, an empty line, the input. Without
either, on a terminal, an interactive conversation starts; /help lists its commands.

In a pipe, only the text of the answer goes to standard output, unchanged, as it streams. On a
terminal, Markdown is rendered and control sequences are removed.

The model's calls of tools from --tools FILE.py and --mcp are shown before they run: y runs a call,
n refuses it, a runs every call of the tool, e edits its arguments. Without a terminal they are
refused, unless --yes is given.

Ctrl-C stops an answer and stores the partial one. API keys are read from the environment, else
from llmstream keys.

Conversations and the prompt history are stored in ~/.local/state/llmstream (or in $XDG_STATE_HOME),
readable only by you. llmstream logs lists, searches and deletes them. --no-log omits one,
LLMSTREAM_LOG=off all of them, LLMSTREAM_HISTORY=off prompts too. LLMSTREAM_LOG_CONTENT=off stores
tokens, cost and times, but no text.

exit status: 0 success, 2 usage error, 3 the stream ended in an error, 130 interrupted (Ctrl-C),
141 the reader of the pipe closed it

examples:
  llmstream chat -m sim:demo "Hello"                          no key, no network
  llmstream chat -m anthropic:claude-sonnet-4-5 "Why is the sky blue?"
  git diff | llmstream chat -m ollama:llama3.2 "Write a commit message" > msg
  llmstream chat -m openai:gpt-5-mini -a photo.jpg "What is this?"
  llmstream chat --schema "name, age int, bio: a short bio" "Invent a cat"
  llmstream chat --tools shelf.py "Which books are left?"     functions of a file as tools
  llmstream chat --mcp "uvx mcp-server-time" "What time is it in Oslo?"
  llmstream chat -c "And at night?"                           continue the last conversation
  llmstream chat --chat trip "And by train?"                  continue or start the one named trip
  llmstream chat --chat trip --branch 2 "And a bus?"          continue where /undo or /retry left it
  llmstream chat -m openai:gpt-5-mini --save talk.json        save the conversation to a file
  llmstream chat --continue talk.json "And at night?"         continue that conversation
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("prompt", metavar="PROMPT", nargs="*", help="the prompt; several words need no quotes")
    add("-m", "--model", metavar="PROVIDER:MODEL", help=MODEL_HELP)
    add("-s", "--system", metavar="TEXT", help="system prompt")
    add(
        "-a",
        "--attach",
        metavar="FILE",
        action="append",
        default=[],
        help="attach a file or URL: image, PDF, audio or text; repeatable",
    )
    add(
        "--schema",
        metavar="SCHEMA",
        help="answer with JSON of this form: a file, a JSON schema, or 'name, age int, bio: a short bio'",
    )
    add("--max-tokens", metavar="N", type=count, help="maximum length of the answer, in tokens")
    add("--temperature", metavar="T", type=decimal, help="sampling temperature")
    add("--reasoning", metavar="EFFORT", type=effort, help=REASONING_HELP)
    add_tool_options(parser)
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    earlier = parser.add_mutually_exclusive_group()
    earlier.add_argument(
        "-c", dest="continue_last", action="store_true", help="continue the last conversation"
    )
    earlier.add_argument(
        "--continue",
        dest="continue_from",
        metavar="FILE",
        help="continue a saved conversation and save it to the same file",
    )
    earlier.add_argument(
        "--chat", dest="name", metavar="NAME", help="continue the conversation of this name, or start it"
    )
    add(
        "--branch",
        metavar="N",
        type=count,
        help="continue this branch of it, by its number in logs show --tree; without --chat, of the last one",
    )
    add("--no-log", dest="log", action="store_false", help="do not store the conversation")
    add("--save", metavar="FILE", help="save the conversation to a new file after each turn")
    add("--force", action="store_true", help="allow --save to overwrite an existing file")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print one JSON object per event, as replay does")
    output.add_argument(
        "-q", "--quiet", action="store_true", help="print the answer and errors only, no warnings or calls"
    )
    add("--no-color", dest="color", action="store_false", help="disable colours (also: NO_COLOR=1)")
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        "--show-reasoning",
        dest="reasoning_shown",
        action="store_true",
        default=None,
        help="show reasoning (default on a terminal; in a pipe it goes to standard error)",
    )
    shown.add_argument(
        "--hide-reasoning", dest="reasoning_shown", action="store_false", help="hide reasoning"
    )


def run(arguments: argparse.Namespace) -> int:
    """Answers one prompt, or holds a conversation."""
    name, messages, stored_model = _earlier(arguments)
    setup = _setup(arguments, stored_model)
    saving = _saving(arguments, setup)
    parts = [attached(file) for file in arguments.attach]
    prompt = _prompt(arguments.prompt, has_parts=bool(parts))
    asker = _asker(arguments, setup)
    if prompt is None and arguments.json:
        raise InvalidRequest("--json needs a prompt: an interactive conversation has no JSON output")
    if prompt is None:
        from llmstream.cli.conversation import Conversation, ConversationState
        from llmstream.cli.line_editor import line_editor

        # A missing key is reported now, not after the first prompt.
        setup.check_key()
        setup.agent()
        editor = line_editor(PromptHistory(state_file("history.jsonl")))
        chat = _chat(arguments, name, messages)
        return Conversation(ConversationState(setup, chat, saving, parts), asker, editor).run()
    conversation = [*messages, Message.user(*parts, *([prompt] if prompt else []))]
    setup.agent(asker)  # invalid options are reported before anything is stored
    chat = _chat(arguments, name, conversation)
    try:
        # The terminal would echo input typed meanwhile into the answer.
        with echo(False):
            outcome = asyncio.run(_one_turn(setup, asker, conversation, chat))
    except KeyboardInterrupt:
        outcome = asker.interrupted()
    answered = len(outcome.messages) > len(conversation)
    if answered:
        saving.save(Chat(*outcome.messages))
        _note(chat, setup)
    elif messages:
        _remove_unanswered(chat, messages)
    stored = name_of(chat) is not None or saving.path
    return _status(outcome, saving.path or "" if answered and stored else None)


def _chat(arguments: argparse.Namespace, name: str | None, messages: list[Message]) -> Chat:
    """The chat of the conversation, which is stored unless the user wants none."""
    if not arguments.log:
        return Chat(*messages)
    file = arguments.continue_from or arguments.save
    if name is None and file:
        name = os.path.abspath(file)[-_MAX_NAME:]  # a file is one conversation, even if continued later
    return stored_chat(name, messages)


def _remove_unanswered(chat: Chat, messages: list[Message]) -> None:
    """Goes back to before a prompt that has no answer; in the store it stays, as a branch."""
    try:
        chat.replace(*messages)
    except LLMStreamError as error:
        print_message(error_message(error))


def _note(chat: Chat, setup: Setup) -> None:
    """Records the model of a stored conversation; reports a failure."""
    try:
        if name_of(chat) is not None:
            note_model(chat, setup.stored_model)
    except LLMStreamError as error:
        print_message(error_message(error))


async def _one_turn(setup: Setup, asker: Asker, conversation: list[Message], chat: Chat) -> Outcome:
    """Connects to the tool servers, runs one turn, and disconnects."""
    try:
        await setup.tools.connect()
        return await asker.ask(setup.agent(asker), conversation, chat)
    finally:
        await setup.tools.aclose()


def _asker(arguments: argparse.Namespace, setup: Setup) -> Asker:
    """Creates what shows the answers; costs are for people, not for pipes."""
    approvals = Approvals(lambda: setup.tools.tools, everyone=arguments.yes)
    if arguments.json or arguments.quiet:
        return Asker(JsonEvents if arguments.json else QuietAnswer, approvals)
    show = partial(
        display_for,
        sys.stdout,
        reasoning=arguments.reasoning_shown,
        color=arguments.color,
        # Underscores and asterisks of JSON are not Markdown.
        markdown=arguments.schema is None,
        hint=print_message,
    )
    price = estimated_price if sys.stdout.isatty() else None
    return Asker(show, approvals, price=price)


def _status(outcome: Outcome, saved_to: str | None) -> int:
    """Reports how the turn ended; returns the exit status.

    saved_to: file of the conversation, "" for the last conversation only; None if nothing was stored
    """
    if outcome.error is not None:
        print_message(error_message(outcome.error))
        return exit_status(outcome.error)
    if outcome.stopped:
        place = f" in {saved_to}" if saved_to else ""
        print_message("stopped" if saved_to is None else f"stopped; the partial answer is stored{place}")
        return INTERRUPTED
    return SUCCESS


def _setup(arguments: argparse.Namespace, stored_model: str) -> Setup:
    """Builds the setup from the arguments.

    stored_model: model of the conversation to continue, or ""
    """
    options: dict[str, Any] = {}
    if arguments.max_tokens is not None:
        options["max_output_tokens"] = arguments.max_tokens
    if arguments.temperature is not None:
        options["temperature"] = arguments.temperature
    if arguments.reasoning is not None:
        options["reasoning"] = arguments.reasoning
    if arguments.schema is not None:
        options["output"] = read_schema(arguments.schema)
    spec = arguments.model or stored_model or default_model()
    if not spec:
        raise InvalidRequest(_no_model())
    tools = ToolSources(arguments.tools, arguments.mcp, ask=not arguments.yes)
    return Setup(checked_model(spec), arguments.base_url, tools, options)


def _no_model() -> str:
    ready = [p.name for p in all_providers() if key_state(p) == "set"]
    keys = f"Keys are set for {', '.join(ready)}. " if ready else ""
    return (
        f"no model given. Pass -m provider:model, or choose one with `llmstream models default`. {keys}"
        "Without a key, try -m sim:demo, a local -m ollama:MODEL, or `llmstream demo`."
    )


def _earlier(arguments: argparse.Namespace) -> tuple[str | None, list[Message], str]:
    """Loads the conversation to continue, system prompt first: its name, messages and model."""
    name: str | None = None
    messages: list[Message] = []
    model = ""
    if arguments.branch is not None and arguments.continue_from:
        raise InvalidRequest("--branch is for stored conversations: -c or --chat, not --continue.")
    if arguments.continue_last or arguments.name or arguments.branch is not None:
        name, messages, model = last_chat(arguments.name, arguments.branch)
    elif arguments.continue_from:
        messages, model = load_chat(arguments.continue_from)
    if arguments.system:
        messages = [m for m in messages if m.role != Role.SYSTEM]
        messages.insert(0, Message.system(typed(arguments.system)))
    return name, messages, model


def _saving(arguments: argparse.Namespace, setup: Setup) -> Saving:
    """Decides where to save; reports an unwritable file before any request is sent."""
    path = arguments.save or arguments.continue_from
    if path is not None:
        own = arguments.continue_from is not None and _same(path, arguments.continue_from)
        check_free(path, force=own or arguments.force)
    return Saving(path, setup.stored_model)


def _same(one: str, other: str) -> bool:
    return one == other or (os.path.exists(one) and os.path.samefile(one, other))


def _prompt(arguments: list[str], *, has_parts: bool) -> str | None:
    """Returns the prompt, "" if attachments suffice; None for an interactive conversation.

    raises: InvalidRequest for an empty prompt without a terminal
    """
    parts = [typed(" ".join(arguments))]
    piped = sys.stdin is not None and not sys.stdin.isatty()
    if piped:
        # Read as bytes: regardless of the locale, a pipe is decoded as UTF-8, with U+FFFD for invalid bytes.
        parts.append(sys.stdin.buffer.read().decode("utf-8", "replace"))
    prompt = "\n\n".join(part.rstrip() for part in parts if part.strip())
    if prompt:
        return prompt
    if piped or sys.stdin is None or not sys.stdout.isatty():
        if has_parts:
            return ""
        raise InvalidRequest("the prompt is empty. Pass it as an argument or on standard input.")
    return None
