"""A process dies in a tool; the journal knows what was done, and nothing that was done runs again."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.agent import Hooks, Rewrite
from llmstream.agent.journal import RunJournal, _copy_prefix
from llmstream.agent.journal_lines import Line, encode_line, read_lines
from llmstream.chats import Message, Role, ToolCall, ToolResult
from llmstream.simulator import Call, Cut, Turn
from llmstream.streams.history import repaired
from llmstream.testing import ScriptedModel

PROGRAM = '''
import asyncio, os, sys
from pathlib import Path
import llmstream as ls
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel

looking, printing = asyncio.Event(), asyncio.Event()

@ls.tool
async def pay(euros: int) -> str:
    """Pays."""
    with open("paid", "a") as file:
        file.write(f"{euros}\\n")
    return f"paid {euros}"

@ls.tool
async def send() -> str:
    """Sends, and the process dies while it does, once the others have begun or ended."""
    await looking.wait()
    await printing.wait()
    while b"paid 2" not in Path("journal").read_bytes():
        await asyncio.sleep(0.01)
    os._exit(9)

@ls.tool(idempotent=True)
async def look() -> str:
    """Looks, for ever."""
    looking.set()
    await asyncio.sleep(60)

@ls.tool(sequential=True)
async def print_it(page: int) -> str:
    """Prints, one after the other."""
    printing.set()
    await asyncio.sleep(60)

model = ScriptedModel(
    Turn(text="First.", calls=(Call("pay", {"euros": 1}),)),
    Turn(
        text="Then.",
        calls=(
            Call("pay", {"euros": 2}), Call("send"), Call("look"),
            Call("print_it", {"page": 1}), Call("print_it", {"page": 2}),
        ),
    ),
)
agent = ls.Agent(
    model, name="clerk", instructions="Be exact.", tools=[pay, send, look, print_it],
    journal=ls.Journal("journal"),
)
asyncio.run(agent.run("Pay, then send."))
'''


@ls.tool
async def pay(euros: int) -> str:
    """Pays."""
    raise AssertionError("it was paid before")


def clerk(*turns: Turn | str, journal: ls.Journal | None = None) -> ls.Agent:
    return ls.Agent(ScriptedModel(*turns), name="clerk", tools=[pay], journal=journal)


@pytest.fixture(scope="module")
def grave(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a process that died in a tool."""
    folder = tmp_path_factory.mktemp("died")
    program = subprocess.run([sys.executable, "-c", PROGRAM], cwd=folder, timeout=60, check=False)
    assert program.returncode == 9
    return folder


@pytest.fixture
def died(grave: Path, tmp_path: Path) -> Path:
    """The journal of that process, in a copy that a test may change."""
    shutil.copytree(grave, tmp_path, dirs_exist_ok=True)
    return tmp_path / "journal"


async def test_finished_calls_known_after_a_crash(died: Path) -> None:
    history = clerk("-").recover(died)
    assert [m.role for m in history] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert [r.content for r in history[3].tool_results] == ["paid 1"]
    paid, sent, looked, first, second = history[5].tool_results
    assert (paid.content, paid.is_error) == ("paid 2", False)
    assert "may have had effects" in sent.content
    assert "safe to repeat" in looked.content
    assert "may have had effects" in first.content
    assert "has not run" in second.content
    assert all(result.is_error for result in (sent, looked, first, second))
    assert repaired(history) == (history, [])
    assert (died.parent / "paid").read_text() == "1\n2\n"


def test_the_file_is_its_owners_alone(died: Path) -> None:
    assert stat.S_IMODE(died.stat().st_mode) == 0o600


async def test_resumed_run_repeats_no_call(died: Path) -> None:
    journal = ls.Journal(died)
    agent = clerk("All is well.", journal=journal)
    run = agent.stream(agent.recover(journal))
    assert (await run.collect()).text == "All is well."
    assert (died.parent / "paid").read_text() == "1\n2\n"
    assert agent.recover(journal) == run.messages()
    journal.close()


def test_torn_line_counts_as_not_written(died: Path) -> None:
    whole = died.read_bytes()
    lines = whole.splitlines(keepends=True)
    for cut in range(len(lines[0]) + len(lines[1]), len(whole), 7):
        died.write_bytes(whole[:cut])
        history = clerk("-").recover(died)
        assert repaired(history) == (history, [])
        assert history[:2] == [Message.system("Be exact."), Message.user("Pay, then send.")]


async def test_writing_goes_on_after_a_torn_line(died: Path) -> None:
    with open(died, "ab") as file:  # noqa: ASYNC230
        file.write(b'{"type":"resu')
    journal = ls.Journal(died)
    agent = clerk("Well.", journal=journal)
    run = agent.stream("Again.")
    await run.collect()
    assert agent.recover(journal) == run.messages()


def test_other_damage_is_named(died: Path) -> None:
    lines = died.read_bytes().splitlines(keepends=True)
    died.write_bytes(b"".join([lines[0], b"{broken}\n", *lines[2:]]))
    with pytest.raises(ls.DecodeError, match="line 2"):
        clerk("-").recover(died)
    died.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(ls.DecodeError, match="removed"):
        clerk("-").recover(died)


async def test_each_agent_finds_its_own_last_run(tmp_path: Path) -> None:
    journal = ls.Journal(tmp_path / "journal")
    with pytest.raises(FileNotFoundError):
        clerk("-").recover(journal)
    await clerk("One.", journal=journal).run("1?")
    await clerk("Two.", journal=journal).run("2?")
    await ls.Agent(ScriptedModel("Three."), name="critic", journal=journal).run("3?")
    assert [m.text for m in clerk("-").recover(journal)] == ["2?", "Two."]
    with pytest.raises(ls.InvalidRequest, match="no run"):
        ls.Agent(ScriptedModel("-"), name="nobody").recover(journal)


async def test_calls_are_recovered_as_they_ran(tmp_path: Path) -> None:
    journal = ls.Journal(tmp_path / "journal")
    seen: list[list[Message]] = []

    @ls.tool(name="pay")
    async def paying(euros: int) -> str:
        seen.append(agent.recover(journal))
        return "paid"

    hooks = Hooks(before_tool=lambda state, call: Rewrite({"euros": 5}))
    turns = Turn(calls=(Call("pay", {"euros": 9}),)), "Done."
    agent = ls.Agent(ScriptedModel(*turns), tools=[paying], hooks=hooks, journal=journal)
    run = agent.stream("Pay.")
    await run.collect()
    (history,) = seen
    assert history[1].tool_calls[0].arguments == '{"euros":5}'
    assert "may have had effects" in history[2].tool_results[0].content
    assert agent.recover(journal) == run.messages()


async def test_failed_response_calls_are_forgotten(tmp_path: Path) -> None:
    journal = ls.Journal(tmp_path / "journal")

    @ls.tool(eager=True)
    async def look() -> str:
        return "seen"

    turn = Turn(text="Well.", calls=(Call("look"), Call("look")), fault=Cut(after_events=12))
    agent = ls.Agent(ScriptedModel(turn), tools=[look], journal=journal)
    with pytest.raises(ls.LLMStreamError):
        await agent.run("Look.")
    # Whether the call was begun by then is a race; that it is thrown away is not.
    assert [line.type for line in read_lines(journal.path)][-1:-4:-1] == ["end", "messages", "discard"]
    assert Role.TOOL not in [m.role for m in agent.recover(journal)]


async def test_resumed_calls_are_journalled(tmp_path: Path) -> None:
    """They were approved while the run was suspended."""
    journal = ls.Journal(tmp_path / "journal")

    @ls.tool(needs_approval=True)
    async def risky() -> str:
        return "done it"

    @ls.tool
    async def plain() -> str:
        return "plain"

    turn = Turn(calls=(Call("risky"), Call("plain")))
    agent = ls.Agent(ScriptedModel(turn, "Done."), tools=[risky, plain], journal=journal)
    first = agent.stream("Go.")
    await first.collect()
    assert first.suspended is not None
    waiting, done = agent.recover(journal)[2].tool_results
    assert "has not run" in waiting.content
    assert done.content == "plain"
    second = agent.resume(first.suspended, {first.suspended.pending[0].approval_id: True})
    async for event in second:
        if isinstance(event, ls.ToolResult) and not event.preliminary:
            found = agent.recover(journal)[2].tool_results
            assert [r.content for r in found] == ["done it", "plain"]
    assert agent.recover(journal) == second.messages()


async def test_unwritable_call_does_not_run(tmp_path: Path) -> None:
    agent = clerk(
        Turn(calls=(Call("pay", {"euros": 1}),)), journal=ls.Journal(tmp_path / "no such folder" / "journal")
    )
    with pytest.raises(OSError, match="no such folder"):
        await agent.run("Pay.")


def size(journal: ls.Journal) -> int:
    return os.path.getsize(journal.path)


async def test_line_that_does_not_fit_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = ls.Journal(tmp_path / "journal")
    await clerk("One.", journal=journal).run("1?")
    before = size(journal)

    def full(file: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            await clerk("Two.", journal=journal).run("2?")
    assert size(journal) == before
    journal.close()


async def test_repeated_id_means_call_of_its_step(tmp_path: Path) -> None:
    journal = ls.Journal(tmp_path / "journal")
    run = RunJournal(journal, "")
    call = ToolCall("c", "pay", "{}")
    said = [Message.user("Pay twice."), Message.assistant(call)]
    await run.messages(0, said)
    await run.call(0, call, repeatable=False)
    await run.result(0, call, ToolResult("c", "paid"))
    said += [Message.tool([ToolResult("c", "paid")]), Message.assistant(call)]
    await run.messages(1, said)
    agent = ls.Agent(ScriptedModel("-"))
    assert [m.tool_results[0].content[:20] for m in agent.recover(journal)[2::2]] == [
        "paid",
        "The process ended be",
    ]
    await run.call(1, call, repeatable=True)
    assert "safe to repeat" in agent.recover(journal)[4].tool_results[0].content


async def lines_of(path: Path, *names: str) -> ls.Journal:
    journal = ls.Journal(path)
    for name in names:
        await journal.write(Line("run", name, agent=name))
    return journal


def runs(path: Path) -> list[str]:
    return [line.run for line in read_lines(str(path))]


class Failing:
    """A disk on which the next write, sync or cut fails, after half of what was to be written."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, journal: ls.Journal, *kinds: str) -> None:
        self.journal, self.left = journal, set(kinds)
        real = {"write": os.write, "fsync": os.fsync, "ftruncate": os.ftruncate}

        def failing(kind: str, number: int) -> Callable[..., object]:
            def call(file: int, *rest: object) -> object:
                if kind not in self.left:
                    return real[kind](file, *rest)  # type: ignore[operator]
                if kind == "write":
                    self.left.discard("write")
                    data = bytes(rest[0])  # type: ignore[arg-type]
                    real["write"](file, data[: len(data) // 2])
                raise OSError(number, kind)

            return call

        monkeypatch.setattr(os, "write", failing("write", errno.ENOSPC))
        monkeypatch.setattr(os, "fsync", failing("fsync", errno.EIO))
        monkeypatch.setattr(os, "ftruncate", failing("ftruncate", errno.EIO))


@pytest.mark.parametrize("kind", ["write", "fsync"])
async def test_failed_write_harms_no_other_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Not even if it cannot be undone."""
    path = tmp_path / "journal"
    journal = await lines_of(path, "a", "b")
    disk = Failing(monkeypatch, journal, kind, "ftruncate")
    with pytest.raises(OSError, match=kind):  # and not the ftruncate's
        await journal.write(Line("run", "lost"))
    disk.left.clear()
    await journal.write(Line("run", "c"))
    assert runs(path) == ["a", "b", "c"]
    journal.close()


async def test_a_disk_that_never_shortens_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal"
    journal = await lines_of(path, "a", "b")
    Failing(monkeypatch, journal, "write", "ftruncate")
    with pytest.raises(OSError, match="write"):
        await journal.write(Line("run", "lost"))
    await journal.write(Line("run", "c"))
    assert runs(path) == ["a", "b", "c"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    journal.close()


async def test_every_turned_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (await lines_of(path, "first", "second", "third")).close()
    whole, told = path.read_bytes(), runs(path)
    turned = tmp_path / "turned"
    for place in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[place] ^= 1 << bit
            turned.write_bytes(data)
            try:
                found = runs(turned)
            except ls.DecodeError:
                continue
            # What is read is what was written; the end of the last line may have been lost.
            assert found == told[: len(found)]
            assert len(found) == len(told) or place == len(whole) - 1


def test_journal_without_checksums_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"type":"run","run":"old"}\n' + encode_line(Line("run", "new")))
    assert runs(path) == ["old", "new"]
    path.write_bytes(encode_line(Line("run", "new")) + b'{"type":"run","run":"forged"}\n')
    with pytest.raises(ls.DecodeError, match="line 2"):
        runs(path)


async def test_copies_of_killed_processes_removed(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (await lines_of(path, "a")).close()
    left, fresh = (tmp_path / f"{_copy_prefix(str(path))}{n}.tmp" for n in (1, 2))
    other = tmp_path / f"{_copy_prefix('another')}1.tmp"
    for copy in (left, fresh, other):
        copy.write_bytes(b"words")
    for copy in (left, other):
        os.utime(copy, (1, 1))
    (await lines_of(path, "b")).close()
    assert [copy.exists() for copy in (left, fresh, other)] == [False, True, True]


@pytest.mark.parametrize(
    "changed", [[0, 0, 1, 2], [0, 1, 1, 2], [0, 2, 1], [1, 0, 2], [0, 2], [1, 2], [0, 1, 2, 2]]
)
async def test_moved_doubled_or_lost_line_is_found(tmp_path: Path, changed: list[int]) -> None:
    path = tmp_path / "journal"
    (await lines_of(path, "a", "b", "c")).close()
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[at] for at in changed))
    with pytest.raises(ls.DecodeError, match="removed, duplicated or moved"):
        runs(path)


async def test_reopened_journal_keeps_checksums(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    (await lines_of(path, "a", "b" * 200_000)).close()
    (await lines_of(path, "c")).close()
    with path.open("ab") as file:
        file.write(b'{"chain":"00')  # torn by a crash
    (await lines_of(path, "d")).close()
    assert runs(path) == ["a", "b" * 200_000, "c", "d"]


def test_line_with_bad_prefix_is_damage(tmp_path: Path) -> None:
    """A bit turned in the name of the first checksum must not turn the check off."""
    path = tmp_path / "journal"
    path.write_bytes(encode_line(Line("run", "a")).replace(b"chain", b"chaIn"))
    with pytest.raises(ls.DecodeError, match="does not start like a line"):
        runs(path)


HOLDER = """
import asyncio, sys
import llmstream as ls
from llmstream.agent.journal_lines import Line

journal = ls.Journal("journal")
asyncio.run(journal.write(Line("run", "first")))
print("open", flush=True)
sys.stdin.read()
"""


def write(journal: ls.Journal, run: str) -> None:
    asyncio.run(journal.write(Line("run", run)))


@pytest.mark.skipif(os.name != "posix", reason="the lock of POSIX systems")
def test_second_process_cannot_open_journal(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as other:
        assert other.stdout is not None
        assert other.stdin is not None
        assert other.stdout.readline() == b"open\n"
        journal = ls.Journal(tmp_path / "journal")
        with pytest.raises(ls.InvalidRequest, match="another process writes to the journal"):
            write(journal, "second")
        other.stdin.close()
        other.wait(30)
    write(journal, "second")
    assert runs(tmp_path / "journal") == ["first", "second"]
    journal.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_fork_does_not_write_parents_journal(tmp_path: Path) -> None:
    journal = ls.Journal(tmp_path / "journal")
    write(journal, "parent")
    child = os.fork()
    if child == 0:
        try:
            journal._file.write(Line("run", "child"), None)
        except ls.InvalidRequest:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    write(journal, "again")
    assert runs(tmp_path / "journal") == ["parent", "again"]
    journal.close()


async def test_two_journals_of_a_path_lose_no_line(tmp_path: Path) -> None:
    """One of them writes the file anew in between."""
    path = tmp_path / "journal"
    one, other = ls.Journal(path, compact_after=2), ls.Journal(str(path), compact_after=None)
    for number in range(6):
        await (one, other)[number % 2].write(Line("run", f"{number}", agent=f"{number}"))
    assert runs(path) == ["0", "1", "2", "3", "4", "5"]
    one.close()


@pytest.mark.skipif(os.name != "posix", reason="POSIX deletes open files")
async def test_deleted_journal_ends_the_run(tmp_path: Path) -> None:
    """The next run begins another file."""
    path = tmp_path / "journal"
    journal = await lines_of(path, "a")
    path.unlink()
    with pytest.raises(FileNotFoundError, match="moved or deleted"):
        await journal.write(Line("end", "a"))
    journal = await lines_of(path, "b")
    path.rename(tmp_path / "rotated")
    await journal.write(Line("run", "c"))
    assert runs(path) == ["c"]
    journal.close()


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
def test_a_pipe_is_no_journal(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o644)
    with pytest.raises(OSError, match="not a regular file"):
        write(ls.Journal(tmp_path / "pipe"), "a")
    assert stat.S_IMODE(os.stat(tmp_path / "pipe").st_mode) == 0o644
