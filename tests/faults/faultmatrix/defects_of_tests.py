"""Defects that tests outside of the matrix find: for each the patch, its row and the test."""

from __future__ import annotations

import hmac
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from faultmatrix.patching import AIOHTTPS_ERRORS, NOTHING, both, follows, put

from llmstream.agent.journal import Journal
from llmstream.chats.content import ToolCall
from llmstream.dialects.gemini import wire as paths
from llmstream.dialects.openai_responses.background import BackgroundResponsesDecoder
from llmstream.display.terminal_text import TerminalFilter
from llmstream.framing.sse import SSEDecoder
from llmstream.providers.bedrock.clock import Clock
from llmstream.simulator import server
from llmstream.streams import attempts, observations
from llmstream.tools import CallRunner, ToolSet
from llmstream.tools.approval import PendingCall
from llmstream.transport import download, http

WIDE = "openai-chat"


class Defect(NamedTuple):
    """row: a number, or T and the number of a threat; test: a node id below tests/"""

    patch: Callable[[pytest.MonkeyPatch, ModuleType | None], object]
    row: str
    test: str


def defect(patch: Callable[[pytest.MonkeyPatch], object], row: str, test: str) -> Defect:
    return Defect(lambda monkeypatch, module: patch(monkeypatch), row, test)


def of_threats(row: str, name: str, value: Callable[[Path], object], test: str) -> Defect:
    """The test looks at files of ours; it is shown others, in a folder made for it."""

    def patch(monkeypatch: pytest.MonkeyPatch, module: ModuleType | None) -> None:
        monkeypatch.setattr(module, name, value(Path(tempfile.mkdtemp())))

    return Defect(patch, row, f"faults/test_threats.py::{test}")


def written(row: str, line: str, test: str) -> Defect:
    """A line that stands in one of our sources."""
    return of_threats(row, "SOURCES", lambda folder: [made(folder / "of_ours.py", line)], test)


def project(row: str, file: str, content: str, test: str) -> Defect:
    """One of our files says something else."""
    return of_threats(row, "ROOT", lambda folder: made(folder / file, content) and folder, test)


def made(path: Path, content: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    return path


def kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    original, kept = SSEDecoder.feed_data, []

    def feed_data(self: SSEDecoder, chunk: bytes) -> Any:
        kept.append(chunk * 4)
        return original(self, chunk)

    monkeypatch.setattr(SSEDecoder, "feed_data", feed_data)


def started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    original = CallRunner.start

    def start(self: CallRunner, wanted: ToolCall) -> None:
        self._started.discard(wanted.id)
        original(self, wanted)

    monkeypatch.setattr(CallRunner, "start", start)


async def unwritten(self: Journal, line: object) -> None:
    """Said to be on the disk, and is not."""


def every_piece_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    original = TerminalFilter.feed
    monkeypatch.setattr(TerminalFilter, "feed", lambda self, text: original(TerminalFilter(), text))


def as_the_umask_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    original = os.open
    monkeypatch.setattr(os, "open", lambda path, flags, mode=0o666, **at: original(path, flags, 0o666, **at))


def told_in_full(self: observations.Reporter, attempt: int, error: Exception, wait_s: float | None) -> None:
    observations._log.info("attempt %d failed: %s", attempt, error)


IMPORTED = "import threading, time\nthreading.Thread(target=time.sleep, args=(1,)).start()\n__all__ = []\n"

HEADERS = f"faults/test_secrets.py::test_smuggled_headers_refused_offline[{WIDE}-a\\nb]"
DEPENDS = '[project]\nname = "llmstream"\ndependencies = ["aiohttp>=3.14.5", "requests"]\n'

DEFECTS_OF_TESTS: dict[str, Defect] = {
    "pieces are kept": defect(
        kept_for_ever,
        "30",
        f"faults/test_memory.py::test_a_flood_costs_at_most_64_mb[{WIDE}-tiny-none-200000]",
    ),
    "an error's body is read whole": defect(
        put(http, "_ERROR_BODY_BYTES", 1 << 40),
        "32",
        f"faults/test_memory.py::test_a_flood_costs_at_most_64_mb[{WIDE}-error body-ServerError-2]",
    ),
    "a call runs as often as it is named": defect(
        both(
            put(ToolSet, "runnable", lambda self, calls: list(calls)),
            started_again,
        ),
        "36",
        "tools/test_runner.py::test_repeated_call_id_runs_once",
    ),
    "calls are not written down": defect(
        put(Journal, "write", unwritten),
        "45",
        "agent/test_journal.py::test_unwritable_call_does_not_run",
    ),
    "gaps are not seen": defect(
        put(BackgroundResponsesDecoder, "_report_gap", NOTHING),
        "48",
        "streams/test_resuming.py::test_gap_without_resuming_fails",
    ),
    "the clock is never wrong": defect(
        put(Clock, "learn", lambda self, *args: False),
        "50",
        "providers/bedrock/test_clock.py::test_call_with_wrong_clock_succeeds",
    ),
    "importing starts a thread": project(
        "52",
        "llmstream/__init__.py",
        IMPORTED,
        "test_import_has_no_side_effects",
    ),
    "a key is not scrubbed": defect(
        put(attempts.Attempts, "without_secrets", lambda self, text: text),
        "T1",
        f"faults/test_secrets.py::test_the_key_is_shown_nowhere[{WIDE}-401]",
    ),
    "redirects are followed": defect(
        follows, "T2", f"faults/test_secrets.py::test_a_redirect_takes_no_key_along[{WIDE}-307]"
    ),
    "any URL may be fetched": defect(
        put(download, "refused_url", NOTHING),
        "T3",
        "transport/test_download.py::test_each_redirect_is_checked_anew[http://localhost./]",
    ),
    "any address may be fetched": defect(
        put(download, "refused_address", NOTHING),
        "T3",
        "transport/test_download.py::test_name_of_private_address_is_refused",
    ),
    "statements are made of texts": written(
        "T5", "db.execute(f'select {name}')\n", "test_no_sql_is_made_of_texts"
    ),
    "headers are not checked": defect(put(http, "check_headers", NOTHING), "T6", HEADERS),
    "a model's name is a path": defect(
        put(paths, "quote", lambda text, **options: text),
        "T7",
        "faults/test_threats.py::test_model_name_cannot_redirect_requests[gemini]",
    ),
    "certificates are not checked": written(
        "T8", "context.check_hostname = False\n", "test_certificate_check_is_never_disabled"
    ),
    "floods end in aiohttp's own errors": defect(
        AIOHTTPS_ERRORS,
        "T9",
        f"faults/test_threats.py::test_a_flood_of_headers_ends_typed[{WIDE}-headers]",
    ),
    "a shell runs commands": written(
        "T10", "run(line, shell=True)\n", "test_no_command_passes_through_a_shell"
    ),
    "any seal will do": defect(
        put(hmac, "compare_digest", lambda a, b: True),
        "T11",
        "agent/test_suspension.py::test_altered_suspension_is_refused[None]",
    ),
    "arguments are shown as they are": defect(
        put(PendingCall, "__str__", lambda self: f"{self.name}({self.arguments})"),
        "T12",
        "agent/test_suspension.py::test_pending_call_shows_all_characters",
    ),
    "data may run": written(
        "T13", "import pickle\npickle.loads(data)\n", "test_nothing_is_read_that_could_run"
    ),
    "the umask decides": defect(
        as_the_umask_wants,
        "T14",
        "test_files.py::test_only_owner_may_read_at_any_umask[0]",
    ),
    "anybody is served": defect(
        put(server, "host_is_local", lambda header: True),
        "T15",
        "simulator/test_server.py::test_bad_paths_and_hosts_are_rejected",
    ),
    "each piece is cleaned by itself": defect(
        every_piece_by_itself,
        "T17",
        "display/test_terminal_text.py::test_a_cut_at_any_place_changes_nothing[clipboard]",
    ),
    "the log says what the server said": defect(
        put(observations.Reporter, "failed", told_in_full),
        "T19",
        f"faults/test_secrets.py::test_server_text_is_one_log_line_only[{WIDE}]",
    ),
    "another package is needed": project(
        "T20", "pyproject.toml", DEPENDS, "test_few_dependencies_and_recent_aiohttp"
    ),
}
