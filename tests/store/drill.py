"""`python -m tests.store.drill kill|write|open|inherit ...`: processes that die, write, begin or fork.

    kill FOLDER [EVERY]            a conversation with tools and files, killed at each statement of SQL
    write FOLDER [PROCESSES] [S]   processes that write at once, each to its own chat and all to one
    open FOLDER [PROCESSES]        processes that make the same store at once
    inherit FOLDER                 a process that is forked from one that has the store open

FOLDER is for the files; where it is the address of a PostgreSQL database, its store is deleted first. Prints
one line of JSON. Processes are forked, so that one takes milliseconds and not a second.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import llmstream as ls
from llmstream.addresses import is_postgres
from llmstream.store import open_store
from llmstream.store.sqlite import SQLiteDatabase
from llmstream.testing import Call, ScriptedModel, Turn

PICTURE = bytes(range(256)) * 100
TURNS = (
    Turn(reasoning="Let me think.", text="I look at it.", calls=(Call("look", {"at": "sea"}),)),
    Turn(text="It is a deep blue fjord."),
    Turn(text="A second answer about the mountains."),
)


def look(at: str) -> str:
    """Looks at something."""
    return f"the {at} is blue"


_OTHERS = (
    "from pg_stat_activity where datname = current_database() and backend_type = 'client backend' "
    "and pid <> pg_backend_pid()"
)


def new_store(place: str, name: str) -> str:
    """The address of a store that is not there."""
    if not is_postgres(place):
        return f"sqlite:{place}/{name}.db"
    emptied(place)
    return place


def emptied(address: str) -> None:
    """Deletes the store in a PostgreSQL database; who has it open loses the connection."""
    import psycopg

    with psycopg.connect(address, autocommit=True, options="-c client_min_messages=warning") as connection:
        connection.execute(f"select pg_terminate_backend(pid) {_OTHERS}")
        alone(connection)
        connection.execute("drop schema if exists llmstream_store cascade")


def alone(connection: Any) -> None:
    """Waits until the server has seen that all other processes are gone."""
    until = time.monotonic() + 60
    while connection.execute(f"select count(*) {_OTHERS}").fetchone()[0]:
        assert time.monotonic() < until, "another process has the database open"
        time.sleep(0.002)


async def talk(address: str, show: Callable[[str], None]) -> None:
    """Two turns; shows what a reader sees, as JSON lines."""
    with open_store(address) as store:
        chat = store.chat("talk")
        agent = ls.Agent(ScriptedModel(*TURNS), tools=[look])
        picture = ls.Image(data=PICTURE, media_type="image/png")
        for prompt in (ls.Message.user("What is this?", picture), ls.Message.user("And behind it?")):
            async with agent.stream(prompt, chat=chat) as run:
                async for event in run:
                    if isinstance(event, ls.TextDelta | ls.ReasoningDelta):
                        show(event.delta)
                    elif isinstance(event, ls.ToolResult) and not event.preliminary:
                        show(str(event.result))


def dying(at: int) -> None:
    """Makes this process die at a statement, counted from 1."""
    count = 0

    def step(statement: object) -> None:
        nonlocal count
        count += 1
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    connect = SQLiteDatabase._connect

    def watched(self: SQLiteDatabase) -> Any:
        connection = connect(self)
        connection.set_trace_callback(step)
        return connection

    SQLiteDatabase._connect = watched  # type: ignore[method-assign]
    with contextlib.suppress(ImportError):
        import psycopg

        execute = psycopg.Connection.execute

        def counted(self: Any, query: Any, *arguments: Any, **options: Any) -> Any:
            step(query)
            return execute(self, query, *arguments, **options)

        psycopg.Connection.execute = counted  # type: ignore[method-assign]


def forked(work: Callable[[], None]) -> int:
    """Runs work in a process of its own; returns its id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def shown_until_death(address: str, at: int) -> tuple[str, bool]:
    """What a process showed before it died at a statement, and whether it did die."""
    read, write = os.pipe()

    def work() -> None:
        dying(at)
        asyncio.run(talk(address, lambda text: os.write(write, text.encode()) and None))

    child = forked(work)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        shown = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return shown, os.WIFSIGNALED(status)


def faults_after(address: str, shown: str) -> list[str]:
    """What is wrong with the store that a dead process left."""
    found: list[str] = []
    if is_postgres(address):
        import psycopg

        with psycopg.connect(address, autocommit=True) as connection:
            alone(connection)
    with open_store(address) as store:
        chat = store.chat("talk")
        kept = "".join(
            message.reasoning + message.text + "".join(result.content for result in message.tool_results)
            for message in chat
            if message.role != "user"
        )
        if not kept.startswith(shown):
            found.append(f"shown {shown!r}, kept {kept!r}")
        prompts = [message for message in chat if message.role == "user"]
        if shown and prompts[0].parts[1].data != PICTURE:  # type: ignore[union-attr]
            found.append("the picture is not whole")
        with store.database.reading() as db:
            counts = db.execute(
                "select (select count(*) from drafts), (select count(*) from turns where state = 'open'), "
                "(select count(*) from messages where parent not in (select n from messages))"
            ).fetchone()
        if counts != (0, 0, 0):
            found.append(f"drafts, open turns, orphans: {counts}")
        found += store.check()
        chat.append(ls.Message.user("Still there?"))
    return found


def inherit(place: str) -> dict[str, Any]:
    """Uses a store that is open, and in the middle of an answer, in a forked process too."""
    address = new_store(place, "shared")

    async def talk() -> list[int]:
        with open_store(address) as store:
            events = aiter(ls.stream("sim:demo", "Hi", chat=store.chat("parent")))
            await anext(events)

            async def answer() -> None:
                events = aiter(ls.stream("sim:demo", "Hi", chat=store.chat("child")))
                await anext(events)
                with open_store(address) as other:
                    assert [turn.state for turn in other.turns("child")] == ["open"]
                async for _ in events:
                    pass

            def work() -> None:
                asyncio.run(answer())
                store.close()

            failed = os.waitpid(forked(work), 0)[1]  # noqa: ASYNC222  # nothing else goes on
            with open_store(address) as other:  # completes what dead processes left
                states = [turn.state for turn in other.turns("parent")]
            async for _ in events:
                pass
        return [failed, *states]

    failed, *states = asyncio.run(talk())
    with open_store(address) as store:
        ends = {name: [turn.state for turn in store.turns(name)] for name in ("parent", "child")}
        return {"failed": failed, "meanwhile": states, "ends": ends, "wrong": store.check()}


def kill(place: str, every: int = 1) -> dict[str, Any]:
    """Kills at each statement until one conversation is not killed any more."""
    at, faults, kept = 1, [], 0
    while True:
        address = new_store(place, str(at))
        shown, died = shown_until_death(address, at)
        if not died:
            return {"kills": (at - 1) // every, "statements": at, "shown": kept, "faults": faults}
        faults += [f"statement {at}: {fault}" for fault in faults_after(address, shown)]
        kept += len(shown)
        if not is_postgres(place):
            for file in Path(place).glob(f"*{at}.db*"):
                if file.is_file():
                    file.unlink()
        at += every


def write(place: str, processes: int = 4, seconds: float = 3.0) -> dict[str, Any]:
    """Each process counts up in its own chat and in one that all share; then all numbers must be there."""
    address = new_store(place, "busy")
    open_store(address).close()
    start = time.monotonic()

    def work(number: int, report: int) -> None:
        written = 0
        slowest = 0.0
        with open_store(address) as store:
            own, shared = store.chat(f"own-{number}"), store.chat("shared")
            while time.monotonic() - start < seconds:
                began = time.monotonic()
                own.append(ls.Message.user(f"own {number} {written}"))
                shared.reload()
                shared.append(ls.Message.user(f"shared {number} {written}"))
                slowest = max(slowest, time.monotonic() - began)
                written += 1
                if random.random() < 0.02:
                    store.search("own")
        os.write(report, json.dumps([written, slowest]).encode() + b"\n")

    read, report = os.pipe()
    children = [forked(lambda number=number: work(number, report)) for number in range(processes)]  # type: ignore[misc]
    os.close(report)
    with os.fdopen(read) as reports:
        found = [json.loads(line) for line in reports]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    expected = sum(written for written, _ in found)
    with open_store(address) as store, store.database.reading() as db:
        bodies = [row[0] for row in db.execute("select body from messages")]
        kinds = Counter(b'"shared ' in body for body in bodies)
        wrong = store.check()
    lost = 2 * expected - kinds[True] - kinds[False]
    slowest_ms = round(max((slowest for _, slowest in found), default=0.0) * 1000)
    return {"failed": failed, "written": 2 * expected, "lost": lost, "wrong": wrong, "slowest_ms": slowest_ms}


def begin(place: str, processes: int = 8) -> dict[str, Any]:
    """Makes one store from several processes at once, and adds to it."""
    address, start = new_store(place, "new"), time.monotonic() + 0.2

    def work(number: int) -> None:
        while time.monotonic() < start:
            pass
        with open_store(address) as store:
            store.chat(f"chat-{number}").append(ls.Message.user("Hi"))
            store.chat("shared").append(ls.Message.user(f"Hi from {number}"))

    children = [forked(lambda number=number: work(number)) for number in range(processes)]  # type: ignore[misc]
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    with open_store(address) as store:
        branches = len(store.chat("shared").branches(at=0))
        chats = len(store.conversations())
        return {"failed": failed, "chats": chats, "branches": branches, "wrong": store.check()}


def in_a_process(*argv: object) -> dict[str, Any]:
    """What a drill found that ran in a process of its own: one with threads should not be forked."""
    command = [sys.executable, "-m", "tests.store.drill", *map(str, argv)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def main() -> None:
    """Runs one drill."""
    if not {"-h", "--help"}.isdisjoint(sys.argv):
        print(__doc__)
        return
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    name, place, *rest = sys.argv[1:]
    drill: Callable[..., dict[str, Any]] = {"kill": kill, "write": write, "open": begin, "inherit": inherit}[
        name
    ]
    print(json.dumps(drill(place, *[float(one) if "." in one else int(one) for one in rest])))


if __name__ == "__main__":
    main()
