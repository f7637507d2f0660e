"""What shows a run to a person or a program: the interface, and which one fits where."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from llmstream.cli.terminal import complain, one_line
from llmstream.events import Event, Source, Warning
from llmstream.streams.reporting import warning_text

__all__ = ["Show", "Wait", "show_for", "source_line", "wait_line", "warning_line"]

_HINT: Final = "plain text only; pip install 'llmstream-sdk[cli]' renders Markdown as it streams"


@dataclass(frozen=True)
class Wait:
    """A request failed and is sent again after a while.

    why:     the HTTP status, or the code of the error
    attempt: the one that is waited for, from 1; `of` so many
    """

    why: str
    seconds: float
    attempt: int
    of: int


class Show(Protocol):
    """Shows the events of one run as they come."""

    def feed(self, event: Event) -> None:
        """Shows one event."""
        ...

    def wait(self, wait: Wait | None) -> None:
        """Shows that the next attempt is waited for; None: it has begun."""
        ...

    def close(self, *, stopped: bool = False) -> None:
        """The run is over, has failed, or was stopped: shows what was held back, and how it went."""
        ...


def show_for(stdout: TextIO, *, reasoning: bool | None, color: bool, markdown: bool = True) -> Show:
    """The show for standard output: live on a terminal, plain in a pipe.

    Has to be called where an event loop runs.
    reasoning: None shows it on a terminal only
    markdown:  whether answers are Markdown, to be rendered on a terminal
    """
    from llmstream.cli.plain import PlainShow, TerminalShow

    if not stdout.isatty():
        return PlainShow(stdout, sys.stderr, reasoning=bool(reasoning))
    reasoning = reasoning is not False
    if markdown and os.environ.get("TERM") != "dumb":
        try:
            from llmstream.cli.live import LiveShow
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("rich", "pygments", "markdown_it"):
                raise
            complain(_HINT)
        else:
            return LiveShow(stdout, reasoning=reasoning, color=color)
    return TerminalShow(stdout, reasoning=reasoning)


def wait_line(wait: Wait) -> str:
    """A wait in one line, such as "429, waiting 3 s (2 of 3)"."""
    seconds = f"{wait.seconds:.1f}" if wait.seconds < 1 else f"{wait.seconds:.0f}"
    return one_line(f"{wait.why}, waiting {seconds} s ({wait.attempt} of {wait.of})")


def warning_line(warning: Warning) -> str:
    """A warning of the request in words, on one line."""
    return one_line(warning_text(warning))


def source_line(number: int, source: Source) -> str:
    """A source as an entry of a list, on one line."""
    known = filter(None, (source.title or source.filename, source.url or source.media_type))
    return one_line(f"[{number}] {': '.join(known) or source.id}")
