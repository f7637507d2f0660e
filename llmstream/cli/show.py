"""What shows a run to a person or a program: the interface, and which one fits where."""

from __future__ import annotations

import os
import sys
from typing import Final, Protocol, TextIO

from llmstream.cli.terminal import complain, one_line
from llmstream.events import (
    Event,
    OtherWarning,
    Source,
    UnsupportedSetting,
    UnsupportedTool,
    Warning,
)

__all__ = ["Show", "show_for", "source_line", "warning_line"]

_HINT: Final = "plain text only; pip install 'llmstream-sdk[cli]' renders Markdown as it streams"


class Show(Protocol):
    """Shows the events of one run as they come."""

    def feed(self, event: Event) -> None:
        """Shows one event."""
        ...

    def close(self, *, stopped: bool = False) -> None:
        """The run is over, has failed, or was stopped: shows what was held back, and how it went."""
        ...


def show_for(stdout: TextIO, *, reasoning: bool | None, color: bool) -> Show:
    """The show for standard output: live on a terminal, plain in a pipe.

    Has to be called where an event loop runs.
    reasoning: None shows it on a terminal only
    """
    from llmstream.cli.plain import PlainShow, TerminalShow

    if not stdout.isatty():
        return PlainShow(stdout, sys.stderr, reasoning=bool(reasoning))
    reasoning = reasoning is not False
    if os.environ.get("TERM") != "dumb":
        try:
            from llmstream.cli.live import LiveShow
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("rich", "pygments", "markdown_it"):
                raise
            complain(_HINT)
        else:
            return LiveShow(stdout, reasoning=reasoning, color=color)
    return TerminalShow(stdout, reasoning=reasoning)


def warning_line(warning: Warning) -> str:
    """A warning of the request in words, on one line."""
    match warning:
        case UnsupportedSetting(setting, details):
            words = f"the setting {setting} was left out"
        case UnsupportedTool(tool, details):
            words = f"the tool {tool} was left out"
        case OtherWarning(words):
            details = None
    return one_line(f"{words}: {details}" if details else words)


def source_line(number: int, source: Source) -> str:
    """A source as an entry of a list, on one line."""
    known = filter(None, (source.title or source.filename, source.url or source.media_type))
    return one_line(f"[{number}] {': '.join(known) or source.id}")
