"""A visitor who does things in a random order with the real client, on a server that is killed now and then.

The server is a process that stores threads in files: `python -m tests.ui.ag_ui.wandering FOLDER`. Each
visitor has one thread, in two tabs; the history is the page's or the server's.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import uuid
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import llmstream as ls
from llmstream import serve
from llmstream.agent.run import AgentRun
from llmstream.chats.message import Role
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.middleware import smooth, wrap
from llmstream.request import Request
from llmstream.serve.aiohttp import respond
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import ag_ui
from tests.ui.ag_ui.conftest import Client
from tests.ui.killed_server import Server, serve_on_a_free_port

KINDS = ("text", "look", "delete", "both", "agent", "again")


# The server.


def unique(text: str) -> str:
    return f"{text}-{uuid.uuid4().hex[:8]}"


def answered(request: Request) -> Turn:
    """Calls the tools that the newest message names, then tells that it is done."""
    last = request.messages[-1]
    if last.role == Role.TOOL:
        return Turn(reasoning="Well.", text=unique("Done") + " with all of that.")
    kind = last.text.split()[0]
    look, delete = Call("look", {"path": unique("l")}), Call("delete", {"path": unique("d")})
    calls = {
        "look": (look, Call("look", {"path": unique("l")})),
        "delete": (look, delete),
        "both": (delete, Call("delete", {"path": unique("d")})),
        "agent": (Call("cleaner", {"prompt": "delete it"}), look),
        # Some servers repeat the ids of calls.
        "again": (
            Call("look", {"path": unique("l")}, "call_0"),
            Call("delete", {"path": unique("d")}, "call_1"),
        ),
    }.get(kind, ())
    return Turn(reasoning="Hm.", text=unique("Answer") + " which goes on for a while", calls=calls)


def agent_of(folder: Path) -> ls.Agent[Any, Any]:
    def ran(path: str) -> str:
        with (folder / "effects").open("a") as file:
            file.write(path + "\n")
        return f"{path} is seen to"

    @ls.tool(needs_approval=True)
    def delete(path: str) -> str:
        """Delete a file."""
        return ran(path)

    def look(path: str) -> str:
        """Look at a file."""
        return ran(path)

    def model() -> ls.Model:
        return wrap(ScriptedModel(answered), smooth(0.005))

    cleaner = ls.Agent(model(), name="cleaner", tools=[delete, look])
    return ls.Agent(model(), tools=[delete, look, cleaner.as_tool()])


class Threads:
    """Threads in files, and the runs under way."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._agent = folder, agent_of(folder)
        self._busy = set[str]()

    def load(self, thread: str) -> tuple[list[ls.Message], ls.Suspension | None]:
        path = self._folder / thread
        if not path.exists():
            return [], None
        messages, suspension = json.loads(path.read_text())
        return list(load_messages(messages)), ls.Suspension.from_json(suspension) if suspension else None

    def save(self, thread: str, messages: list[ls.Message], suspension: ls.Suspension | None) -> None:
        waiting = "" if suspension is None else suspension.to_json().decode()
        (self._folder / f"{thread}.new").write_text(json.dumps([dump_messages(messages).decode(), waiting]))
        (self._folder / f"{thread}.new").rename(self._folder / thread)

    async def events(self, asked: ag_ui.RunInput) -> AsyncGenerator[ls.Event]:
        thread = asked.thread_id
        if thread in self._busy:
            raise ls.InvalidRequest("a run of this thread is under way", status=409)
        self._busy.add(thread)
        try:
            run = self._run(asked)
            stored = False
            try:
                async with run:
                    async for event in run:
                        if isinstance(event, ls.Finish):
                            self.save(thread, run.messages(), run.suspended)
                            stored = True
                        yield event
            finally:
                if not stored:
                    self.save(thread, run.messages(), run.suspended)
        finally:
            self._busy.discard(thread)

    def _run(self, asked: ag_ui.RunInput) -> AgentRun[Any]:
        messages, suspension = self.load(asked.thread_id)
        if asked.is_resume:
            if suspension is None:
                raise ls.InvalidRequest("no run of this thread waits for a decision")
            decisions, results = asked.answers(suspension)
            run = self._agent.resume(suspension, decisions, results=results)
            # Before a tool runs: no second request continues the same calls.
            self.save(asked.thread_id, messages, None)
            return run
        of_page = asked.forwarded == "page"
        return self._agent.stream(asked.messages if of_page else [*messages, *asked.prompt])


async def serve_threads(folder: Path) -> None:
    threads = Threads(folder)

    async def answer(request: web.Request) -> web.StreamResponse:
        try:
            asked = ag_ui.read(await request.read())
        except ls.InvalidRequest as error:
            return web.Response(status=400, text=error.message)
        return await respond(request, serve.Body(threads.events(asked), asked.writer()))

    async def load(request: web.Request) -> web.StreamResponse:
        messages, waiting = threads.load(request.match_info["id"])
        interrupts = [] if waiting is None else ag_ui.interrupts(waiting)
        return web.json_response({"messages": ag_ui.dump(messages, waiting), "interrupts": interrupts})

    application = web.Application()
    application.router.add_post("/agent", answer)
    application.router.add_get("/thread/{id}", load)
    await serve_on_a_free_port(application)


# The page.


class Broken(AssertionError):
    """What must not happen."""


class Tab:
    """What a page has of its thread."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.interrupts: list[dict[str, Any]] = []
        self.is_current = True


def own(messages: list[dict[str, Any]]) -> list[Any]:
    """What a visitor sees, without what sub-agents did, which a server does not load.

    Not ids: those of new messages are counted in a thread that is loaded.
    """
    found: list[Any] = []
    for message in messages:
        if message["role"] in ("user", "assistant") and message.get("subagentRunId") is None:
            calls = [call["function"] for call in message.get("toolCalls") or ()]
            found.append((message["role"], message.get("content") or "", calls))
    return found


def results(messages: list[dict[str, Any]]) -> set[str]:
    """The results of calls that have run."""
    return {one["content"] for one in messages if one["role"] == "tool" and "is seen to" in one["content"]}


class Visitor:
    """One who does `steps` things in a thread."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, client: Client, seed: int) -> None:
        self.server, self.session, self.client, self.seed = server, session, client, seed
        self.random = random.Random(seed)
        self.thread, self.history = f"thread{seed}", self.random.choice(("page", "server"))
        self.tabs = [Tab(), Tab()]
        self.journal: list[str] = []
        self.seen: set[str] = set()  # texts and results of runs that have ended
        self.denied: set[str] = set()
        self.finished = 0

    async def wander(self, steps: int) -> None:
        try:
            for _ in range(steps):
                tab = self.tabs[0] if self.random.random() < 0.7 else self.tabs[1]
                acts = [
                    self.send,
                    self.send,
                    self.stop,
                    self.reload,
                    *[self.decide] * 5 * bool(tab.interrupts),
                ]
                act = self.random.choice(acts)
                self.journal.append(f"{self.tabs.index(tab)} {act.__name__}")
                async with asyncio.timeout(30):
                    await self.server.up.wait()
                    kills = self.server.kills
                    try:
                        await act(tab)
                    except aiohttp.ClientError:
                        if kills == self.server.kills and self.server.up.is_set():
                            raise
                        await self.after(tab)
        except BaseException as error:
            error.add_note(
                f"visitor {self.seed}, history of the {self.history}: " + "; ".join(self.journal[-30:])
            )
            raise

    async def send(self, tab: Tab, **run: Any) -> None:
        text = f"{self.random.choice(KINDS)} {uuid.uuid4().hex[:6]}"
        self.journal.append(text)
        message = {"id": unique("u"), "role": "user", "content": text}
        # The page's history is the newest only in a page that has all of it.
        if self.history == "page" and not tab.is_current:
            await self.reload(tab)
        # Real pages answer, or give up, what waits before they ask again; the client refuses it otherwise.
        tab.interrupts = []
        await self.ask(tab, {"messages": [message], "forwardedProps": self.history, **run})

    async def stop(self, tab: Tab) -> None:
        kinds = (
            "STEP_STARTED",
            "TEXT_MESSAGE_CONTENT",
            "TOOL_CALL_START",
            "TOOL_CALL_RESULT",
            "STEP_FINISHED",
        )
        await self.send(tab, stopAt=self.random.choice(kinds))

    async def decide(self, tab: Tab) -> None:
        payload: dict[str, Any] = {"approved": self.random.random() < 0.7}
        decision: dict[str, Any] = {"status": "resolved", "payload": payload}
        if self.random.random() < 0.15:
            decision = {"status": "cancelled"}
        elif payload["approved"] and len(tab.interrupts) == 1 and self.random.random() < 0.4:
            payload["editedArgs"] = {"path": unique("e")}
        self.journal.append(str(decision))
        await self.ask(tab, {"decide": decision})

    async def reload(self, tab: Tab) -> None:
        async with self.session.get(f"{self.server.url}/thread/{self.thread}") as response:
            if response.status != 200:
                raise Broken(f"load has status {response.status}")
            found = await response.json()
        tab.messages, tab.interrupts, tab.is_current = found["messages"], found["interrupts"], True

    async def ask(self, tab: Tab, run: dict[str, Any]) -> None:
        """One run of the real client, which verifies the stream."""
        kills = self.server.kills
        task = {"url": f"{self.server.url}/agent", "thread": self.thread, "runs": [run]}
        task |= {"messages": tab.messages, "interrupts": tab.interrupts}
        try:
            async with asyncio.timeout(15):
                answer = await asyncio.to_thread(self.client.ask, task)
        except TimeoutError:
            raise Broken("a run took 15 s") from None
        (seen,) = answer["runs"]
        ids = [message["id"] for message in answer["messages"]]
        if len(set(ids)) < len(ids):
            raise Broken(f"a message is there twice: {ids}")
        killed = self.server.kills != kills or not self.server.up.is_set()
        if seen["warned"]:
            raise Broken(f"the client warns: {seen['warned']}")
        failure = seen.get("failed")
        if failure is not None or killed or "stopAt" in run:
            status = (failure or {}).get("status")
            self.journal.append(f"-> {status} {(failure or {}).get('message')}")
            if not (killed or "stopAt" in run) and status not in (400, 409):
                raise Broken(f"a run failed: {seen}")
            await self.after(tab)
            return
        if seen["events"][-1]["type"] != "RUN_FINISHED":
            raise Broken(f"no end: {seen['events'][-3:]}")
        tab.messages, tab.interrupts = answer["messages"], seen["pending"]
        for other in self.tabs:
            other.is_current = other is tab
        self.finished += 1
        mine = [one for one in tab.messages if one.get("subagentRunId") is None]
        self.seen |= {text for _, text, _ in own(mine)} | results(mine)

    async def after(self, tab: Tab) -> None:
        """Loads the page again, once its server is there and has stored the run that was left."""
        for other in self.tabs:
            other.is_current = False
        await asyncio.sleep(0.1)
        for _ in range(50):
            await self.server.up.wait()
            with suppress(aiohttp.ClientError):
                await self.reload(tab)
                return
            await asyncio.sleep(0.05)
        raise Broken("the server does not answer")

    async def check_end(self) -> None:
        """Checks the thread, once nobody does anything any more, and that it can go on."""
        try:
            await self._check_end()
        except BaseException as error:
            error.add_note(
                f"visitor {self.seed}, history of the {self.history}: " + "; ".join(self.journal[-30:])
            )
            raise

    async def _check_end(self) -> None:
        tab = Tab()
        self.tabs = [tab]
        for _ in range(2):
            await self.after(tab)
            before = self.finished
            await self.send(tab)
            if self.finished == before:
                raise Broken(f"the thread cannot go on: {self.journal[-3:]}")
        page = own(tab.messages)
        await self.reload(tab)
        if own(tab.messages) != page:
            raise Broken(f"the page has\n{page}\nand a reload shows\n{own(tab.messages)}")
        texts = {text for _, text, _ in own(tab.messages)} | results(tab.messages)
        if lost := self.seen - texts:
            raise Broken(f"lost: {lost}")


async def check_wandering(folder: Path, clients: list[Client], seed: int, steps: int, kills: int = 0) -> None:
    """Plays it all: a visitor for each client."""
    chance = random.Random(seed)
    server = Server("tests.ui.ag_ui.wandering", folder)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:

            async def kill() -> None:
                for _ in range(kills):
                    await asyncio.sleep(chance.uniform(0.3, 1.5))
                    await server.kill()
                    await server.start()

            everybody = [
                Visitor(server, session, client, seed * 100 + number) for number, client in enumerate(clients)
            ]
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(kill())
                for visitor in everybody:
                    tasks.create_task(visitor.wander(steps))
            async with asyncio.TaskGroup() as tasks:
                for visitor in everybody:
                    tasks.create_task(visitor.check_end())
    finally:
        await server.kill()
    effects = folder / "effects"
    often = [
        path for path, n in Counter(effects.read_text().split() if effects.exists() else []).items() if n > 1
    ]
    if often:
        raise Broken(f"tools ran twice: {often}")
    if "Traceback" in (text := (folder / "errors").read_text()):
        raise Broken(text[-3000:])


if __name__ == "__main__":
    asyncio.run(serve_threads(Path(sys.argv[1])))
