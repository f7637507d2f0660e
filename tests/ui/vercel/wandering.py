"""Visitors who do things in a random order, on a real server that is killed now and then, and what must hold.

The server is a process over `Chats` in an SQLite file: `python -m tests.ui.vercel.wandering FOLDER`. Each
visitor has one conversation in two tabs.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import uuid
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp import web

import llmstream as ls
from llmstream.chats.message import Role
from llmstream.middleware import smooth, wrap
from llmstream.request import Request
from llmstream.serve.aiohttp import respond
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel
from tests.ui.killed_server import Server, serve_on_a_free_port

LEASE_S = 0.5
KINDS = ("text", "look", "delete", "both", "hold", "agent", "page")


# The server.


def unique(text: str) -> str:
    return f"{text}-{uuid.uuid4().hex[:8]}"


def answered(request: Request) -> Turn:
    """Calls the tools that the newest message names, then tells that it is done."""
    last = request.messages[-1]
    if last.role == Role.TOOL:
        return Turn(text=unique("Done") + " with all of that, in some more words.")
    kind = last.text.split()[0]
    look, delete = Call("look", {"path": unique("l")}), Call("delete", {"path": unique("d")})
    calls = {
        "look": (look, Call("look", {"path": unique("l")})),
        "delete": (look, delete),
        "both": (delete, Call("delete", {"path": unique("d")})),
        "hold": (Call("hold", {"path": unique("h")}),),
        "agent": (Call("cleaner", {"prompt": "delete it"}), look),
        "page": (Call("ask_page", {"path": unique("p")}),),
    }.get(kind, ())
    if kind == "text":
        return Turn(reasoning="Hm, well.", text=unique("Answer") + " which goes on for a while" * 3)
    return Turn(text=unique("Look"), calls=calls)


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

    async def hold(path: str) -> str:
        """Work for some time."""
        result = ran(path)
        await asyncio.sleep(0.4)
        return result

    def model() -> ls.Model:
        return wrap(ScriptedModel(answered), smooth(0.01))

    cleaner = ls.Agent(model(), name="cleaner", tools=[delete, look])
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    page = ls.ToolSpec("ask_page", "Ask the page.", schema)
    return ls.Agent(model(), tools=[delete, look, hold, cleaner.as_tool(), page])


async def serve(folder: Path) -> None:
    where = f"sqlite:{folder / 'chats.db'}"
    async with (
        ls.open_logs(where, lease_s=LEASE_S) as logs,
        vercel.Chats(where, agent_of(folder), logs=logs) as chats,
    ):

        async def answer(request: web.Request) -> web.StreamResponse:
            return await respond(request, await chats.answer(await request.read(), user="ada"))

        async def resume(request: web.Request) -> web.StreamResponse:
            return await respond(request, await chats.resume(request.match_info["id"], user="ada"))

        async def stop(request: web.Request) -> web.StreamResponse:
            return web.json_response(await chats.stop(request.match_info["id"], user="ada"))

        async def load(request: web.Request) -> web.StreamResponse:
            resumes = "resume" in request.query
            found = await chats.load(request.match_info["id"], user="ada", resume=resumes)
            return web.json_response(found)

        async def delete(request: web.Request) -> web.StreamResponse:
            await chats.delete(request.match_info["id"], user="ada")
            return web.json_response(True)

        application = web.Application()
        application.router.add_post("/chat", answer)
        application.router.add_get("/chat/{id}/stream", resume)
        application.router.add_post("/chat/{id}/stop", stop)
        application.router.add_get("/chat/{id}", load)
        application.router.add_delete("/chat/{id}", delete)
        await serve_on_a_free_port(application)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Server]:
    server = Server("tests.ui.vercel.wandering", folder, "/chat")
    await server.start()
    try:
        yield server
    finally:
        await server.kill()


# The page.


class Broken(AssertionError):
    """What must not happen."""


class Tab:
    """A page of one conversation, as npm `ai` has it."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self.message: dict[str, Any] = {}
        self.texts: dict[str, dict[str, Any]] = {}
        self.ended = self.terminal = False

    def begin(self) -> None:
        self.message, self.texts, self.ended, self.terminal = {}, {}, False, False

    def read(self, chunk: dict[str, Any]) -> None:
        """Adds a chunk to the message, as the package does."""
        if self.terminal:
            raise Broken(f"a chunk behind the end: {chunk}")
        match chunk["type"]:
            case "start":
                last = self.messages[-1] if self.messages else {}
                if last.get("id") != chunk["messageId"]:
                    last = {"id": chunk["messageId"], "role": "assistant", "parts": []}
                    self.messages.append(last)
                self.message = last
            case "text-start" | "reasoning-start" as kind:
                part = {"type": kind[:-6], "text": ""}
                self.texts[chunk["id"]] = part
                self.message["parts"].append(part)
            case "text-delta" | "reasoning-delta":
                self.texts[chunk["id"]]["text"] += chunk["delta"]
            case "text-end" | "reasoning-end":
                del self.texts[chunk["id"]]
            case "tool-input-available":
                part = self.call(chunk["toolCallId"])
                if part is None:
                    part = {"toolCallId": chunk["toolCallId"]}
                    self.message["parts"].append(part)
                kind = f"tool-{chunk['toolName']}"
                part |= {"type": kind, "state": "input-available", "input": chunk["input"]}
            case "tool-approval-request":
                part = self.named(chunk)
                part |= {"state": "approval-requested", "approval": {"id": chunk["approvalId"]}}
            case "tool-output-available" if not chunk.get("preliminary"):
                part = self.named(chunk)
                part |= {"state": "output-available", "output": chunk["output"]}
            case "tool-output-error" | "tool-output-denied" as kind:
                part = self.named(chunk)
                part["state"] = kind[5:]
            case "finish" | "abort" | "error":
                if self.texts:
                    raise Broken(f"{chunk['type']} with open blocks {self.texts}")
                self.terminal = chunk["type"] != "error"

    def call(self, call_id: str) -> dict[str, Any] | None:
        parts = self.message["parts"]
        return next((part for part in parts if part.get("toolCallId") == call_id), None)

    def named(self, chunk: dict[str, Any]) -> dict[str, Any]:
        part = self.call(chunk["toolCallId"])
        if part is None:
            raise Broken(f"no call of {chunk}")
        return part

    def calls(self, *states: str) -> list[dict[str, Any]]:
        last = self.messages[-1] if self.messages else {"parts": []}
        return [part for part in last["parts"] if part.get("state") in states and "toolCallId" in part]


def short(messages: list[dict[str, Any]]) -> list[Any]:
    """What a visitor sees of a conversation."""
    found = []
    for message in messages:
        parts: list[Any] = []
        for part in message["parts"]:
            if "toolCallId" in part:
                parts.append((part["toolCallId"], part["state"], part.get("output"), part["input"]))
            elif part.get("text"):
                parts.append((part["type"], part["text"]))
        found.append((message["id"], message["role"], parts))
    return found


class Visitor:
    """One who does `steps` things in a conversation."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, seed: int) -> None:
        self.server, self.session, self.seed = server, session, seed
        self.random = random.Random(seed)
        self.id = f"chat{seed}"
        self.tabs = [Tab(), Tab()]
        self.journal: list[str] = []
        self.statuses = Counter[tuple[str, int]]()
        self.bodies: list[bytes] = []
        # What has to stay, unless something is taken back while it is being done.
        self.taken_back = 0
        self.sent: dict[str, int] = {}
        self.seen: dict[tuple[str, Any], int] = {}
        self.decided: dict[str, set[bool]] = {}
        self.asked: dict[str, str] = {}

    def note(self, text: str) -> None:
        self.journal.append(text)

    async def wander(self, steps: int) -> None:
        try:
            for _ in range(steps):
                tabs = self.random.sample(self.tabs, 2 if self.random.random() < 0.25 else 1)
                await asyncio.gather(*[self.act(tab) for tab in tabs])
        except BaseException as error:
            error.add_note(f"visitor {self.seed}: " + "\n".join(self.journal[-40:]))
            raise

    async def act(self, tab: Tab) -> None:
        """Does one thing in a tab; a broken connection makes its visitor load the page again."""
        waiting = tab.calls("approval-requested")
        external = [part for part in tab.calls("input-available") if part["type"] == "tool-ask_page"]
        acts = [self.send, self.send, self.send, self.leave, self.reload, self.glance, self.stop]
        acts += (
            [self.regenerate] + [self.decide] * (5 if waiting else 0) + [self.give] * (5 if external else 0)
        )
        if self.random.random() < 0.15:
            acts.append(self.delete)
        act = self.random.choice(acts)
        kills = self.server.kills
        self.note(f"{self.tabs.index(tab)} {act.__name__}")
        try:
            async with asyncio.timeout(15):
                await act(tab)
        except TimeoutError:
            if kills == self.server.kills:
                raise Broken(f"{act.__name__} took 15 s") from None
        except (aiohttp.ClientError, ConnectionError) as error:
            if kills == self.server.kills and self.server.up.is_set():
                raise Broken(f"{act.__name__}: the connection broke: {error!r}") from error
            self.note("  killed")
            await self.after_kill(tab)

    async def after_kill(self, tab: Tab) -> None:
        for _ in range(20):
            await self.server.up.wait()
            kills = self.server.kills
            try:
                async with asyncio.timeout(15):
                    await self.reload(tab)
                return
            except (TimeoutError, aiohttp.ClientError, ConnectionError):
                if kills == self.server.kills and self.server.up.is_set():
                    raise

    # The things.

    async def send(self, tab: Tab, leave: int | None = None) -> None:
        text = f"{self.random.choice(KINDS)} {uuid.uuid4().hex[:6]}"
        message = {"id": unique("u"), "role": "user", "parts": [{"type": "text", "text": text}]}
        tab.messages.append(message)
        self.note(f"  {text}")
        before = self.taken_back
        if await self.post(tab, leave=leave) and before == self.taken_back:
            self.sent[message["id"]] = before

    async def leave(self, tab: Tab) -> None:
        await self.send(tab, leave=self.random.randint(0, 12))

    async def decide(self, tab: Tab) -> None:
        waiting = tab.calls("approval-requested")
        if not waiting:
            return
        if len(waiting) > 1 and self.random.random() < 0.3:
            waiting = waiting[:1]
        extra: dict[str, Any] = {}
        for part in waiting:
            approved = self.random.random() < 0.7
            edited = approved and self.random.random() < 0.3
            approval = part["approval"]["id"]
            self.decided.setdefault(approval, set()).add(approved)
            self.asked[approval] = part["input"]["path"].removesuffix("+")
            part["state"] = "approval-responded"
            part["approval"]["approved"] = approved
            if edited:
                extra[approval] = {"approved": True, "arguments": {"path": part["input"]["path"] + "+"}}
        leave = self.random.randint(0, 6) if self.random.random() < 0.3 else None
        await self.post(tab, leave=leave, **({"approvals": extra} if extra else {}))

    async def give(self, tab: Tab) -> None:
        for part in tab.calls("input-available"):
            if part["type"] == "tool-ask_page":
                part |= {"state": "output-available", "output": {"place": unique("Oslo")}}
        await self.post(tab)

    async def regenerate(self, tab: Tab) -> None:
        if not any(message["role"] == "assistant" for message in tab.messages):
            return
        self.take_back()
        at = max(n for n, message in enumerate(tab.messages) if message["role"] == "assistant")
        message_id = tab.messages[at]["id"]
        tab.messages = tab.messages[:at]
        try:
            await self.post(tab, trigger="regenerate-message", messageId=message_id)
        finally:
            self.take_back()

    async def stop(self, tab: Tab) -> None:
        async with self.session.post(f"{self.server.url}/{self.id}/stop") as response:
            self.check("stop", response.status, 200)

    async def delete(self, tab: Tab) -> None:
        self.take_back()
        try:
            async with self.session.delete(f"{self.server.url}/{self.id}") as response:
                self.check("delete", response.status, 200)
        finally:
            self.take_back()
        tab.messages = []

    async def glance(self, tab: Tab) -> None:
        """Loads the page without reading a response in progress."""
        tab.messages = await self.loaded()

    async def reload(self, tab: Tab) -> None:
        before = self.taken_back
        tab.messages = await self.loaded("?resume")
        async with self.session.get(f"{self.server.url}/{self.id}/stream") as response:
            # A response that was lost before its first content has the status of its failure.
            lost = (502,) if self.server.kills else ()
            self.check("resume", response.status, 200, 204, *lost)
            if response.status == 200:
                await self.follow(tab, response, before, None)

    def take_back(self) -> None:
        self.taken_back += 1
        self.sent.clear()
        self.seen.clear()

    async def loaded(self, query: str = "") -> list[dict[str, Any]]:
        async with self.session.get(f"{self.server.url}/{self.id}{query}") as response:
            self.check("load", response.status, 200)
            found: list[dict[str, Any]] = await response.json()
        names = [message["id"] for message in found]
        if len(set(names)) < len(names):
            raise Broken(f"a message is there twice: {names}")
        return found

    async def post(self, tab: Tab, *, leave: int | None = None, **fields: Any) -> bool:
        request = {"id": self.id, "trigger": "submit-message", **fields, "messages": tab.messages}
        before = self.taken_back
        async with self.session.post(self.server.url, json=request) as response:
            self.check("post", response.status, 200, 409)
            if response.status != 200:
                self.note(f"  {response.status} {await response.text()}")
                # As a visitor who is told so.
                with suppress(aiohttp.ClientError):
                    tab.messages = await self.loaded()
                return False
            await self.follow(tab, response, before, leave)
        return True

    async def follow(
        self, tab: Tab, response: aiohttp.ClientResponse, before: int, leave: int | None
    ) -> None:
        tab.begin()
        message_id, data, done = "", b"", False
        try:
            async for line in response.content:
                data += line
                if line == b"data: [DONE]\n":
                    done = True
                elif line.startswith(b"data: "):
                    tab.read(json.loads(line[6:]))
                    message_id = tab.message["id"]
                    if leave is not None and (leave := leave - 1) < 0:
                        return
            if not done:
                raise Broken(f"a response without an end: {data[-200:]!r}")
            self.bodies.append(data)
        finally:
            if before == self.taken_back and message_id:
                for part in tab.message["parts"]:
                    if part.get("text"):
                        self.seen[message_id, part["text"]] = before
                    elif part.get("state") == "output-available" and part["type"] != "tool-ask_page":
                        self.seen[message_id, (part["toolCallId"], json.dumps(part["output"]))] = before

    def check(self, what: str, status: int, *allowed: int) -> None:
        self.statuses[what, status] += 1
        if status not in allowed:
            raise Broken(f"{what} has status {status}")

    # The end.

    async def check_end(self) -> None:
        """Checks the conversation, once nobody does anything any more, and that it can go on."""
        try:
            async with asyncio.timeout(30):
                await self._check_end()
        except BaseException as error:
            error.add_note(f"visitor {self.seed}: " + "\n".join(self.journal[-40:]))
            raise

    async def _check_end(self) -> None:
        tab = Tab()
        self.tabs = [tab]
        await self.reload(tab)
        found = await self.loaded()
        if short(tab.messages) != short(found):
            raise Broken(f"a reload shows\n{short(tab.messages)}\nand it is\n{short(found)}")
        states = {part["state"] for message in found for part in message["parts"] if "toolCallId" in part}
        waiting = {part["toolCallId"] for part in tab.calls("approval-requested", "input-available")}
        if not waiting and not states <= {"output-available", "output-error", "output-denied"}:
            raise Broken(f"a call has no end: {short(found)}")
        by_id = {message["id"]: message for message in found}
        lost = [name for name in self.sent if name not in by_id]
        if lost:
            raise Broken(f"messages of the visitor are lost: {lost} of {short(found)}")
        for message_id, what in self.seen:
            parts = by_id.get(message_id, {"parts": []})["parts"]
            if isinstance(what, str):
                kept = any(what in part.get("text", "") for part in parts)
            else:
                kept = any(what == (part.get("toolCallId"), json.dumps(part.get("output"))) for part in parts)
            if not kept:
                raise Broken(f"{message_id} has lost {what!r}: {short(found)}")
        await self.send(tab)
        if self.sent and tab.messages[-1]["role"] != "assistant":
            raise Broken(f"the last message has no response: {short(tab.messages)}")
        found = await self.loaded()
        if short(tab.messages[-2:]) != short(found[-2:]):
            raise Broken(f"the page has\n{short(tab.messages)}\nand it is\n{short(found)}")


async def check_wandering(
    folder: Path, seed: int, visitors: int, steps: int, kills: int = 0
) -> list[Visitor]:
    """Plays it all; returns the visitors, for what else is to be checked."""
    chance = random.Random(seed)
    async with served(folder) as server, aiohttp.ClientSession() as session:
        everybody = [Visitor(server, session, seed * 1000 + number) for number in range(visitors)]

        async def kill() -> None:
            for _ in range(kills):
                await asyncio.sleep(chance.uniform(0.3, 2.0))
                await server.kill()
                await server.start()

        killing = asyncio.create_task(kill())
        try:
            async with asyncio.TaskGroup() as tasks:
                for visitor in everybody:
                    tasks.create_task(visitor.wander(steps))
            await killing
            await asyncio.sleep(2 * LEASE_S)
            async with asyncio.TaskGroup() as tasks:
                for visitor in everybody:
                    tasks.create_task(visitor.check_end())
        finally:
            killing.cancel()
    ran = (folder / "effects").read_text().split() if (folder / "effects").exists() else []
    often = [path for path, count in Counter(path.rstrip("+") for path in ran).items() if count > 1]
    if often:
        raise Broken(f"tools ran twice: {often}")
    for visitor in everybody:
        for approval, made in visitor.decided.items():
            if made == {False} and visitor.asked[approval] in ran:
                raise Broken(f"a denied call has run: {visitor.asked[approval]}")
    return everybody


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
