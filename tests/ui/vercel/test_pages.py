"""What pages show that read our responses by the npm package `ai`, from a real server over `Chats`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats.message import Role
from llmstream.request import Request
from llmstream.serve import Body
from llmstream.serve.aiohttp import respond
from llmstream.simulator import Call, Cut, Pace, Refuse, Simulator, Turn
from llmstream.ui import vercel

from .conftest import NEWEST, STRICT, major_of

KEY = b"a secret"
LONG = "It was a dark and stormy night, and the rain fell in torrents on the roofs. " * 20


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: -2"


async def scan(folder: str) -> AsyncGenerator[dict[str, int]]:
    """Scan a folder."""
    for done in (1, 2, 3):
        yield {"done": done}


def broken(x: str) -> str:
    """Fail."""
    raise ValueError("no luck")


async def hold(x: str) -> str:
    """Wait."""
    await asyncio.sleep(60)
    return x


@ls.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def asking(*calls: Call, text: str = "Let me see.") -> Callable[[Request], Turn]:
    """Calls the tools, then quotes their results."""

    def turn(request: Request) -> Turn:
        last = request.messages[-1]
        if last.role == Role.TOOL:
            return Turn(text=" ".join(result.content for result in last.tool_results))
        asked = last.text
        named = [Call(call.name, dict.fromkeys(call.arguments, asked)) for call in calls]
        return Turn(text=text, calls=tuple(named) if asked != "no" else ())

    return turn


def repeating(*calls: Call) -> Callable[[Request], Turn]:
    """Makes one call after the other, as a server that gives all of them the same id; then tells the last."""

    def turn(request: Request) -> Turn:
        results = [message for message in request.messages if message.role == Role.TOOL]
        if len(results) == len(calls):
            return Turn(text=results[-1].tool_results[0].content)
        call = calls[len(results)]
        return Turn(calls=(Call(call.name, call.arguments, "call_0"),))

    return turn


def failing_once() -> Callable[[Request], Turn]:
    """Breaks off at the first request of each page."""
    seen = set[str]()

    def turn(request: Request) -> Turn:
        page = request.messages[-1].text
        if page in seen:
            return Turn(text="Hello you.")
        seen.add(page)
        return Turn(text=LONG, fault=Cut(after_events=6))

    return turn


OSLO_LIMA = (Call("weather", {"city": "Oslo"}), Call("weather", {"city": "Lima"}))
AGAIN = repeating(OSLO_LIMA[0], Call("delete", {"path": "notes.txt"}), OSLO_LIMA[1])
WEATHER = Call("weather", {"city": ""})
TURNS: dict[str, Callable[[Request], Turn]] = {
    "text": lambda request: Turn(text="Hello you."),
    "reasoning": lambda request: Turn(reasoning="Hm hm.", text="Hello you."),
    "weather": asking(WEATHER),
    "parallel": asking(WEATHER, Call("broken", {"x": ""}), WEATHER),
    "progress": asking(Call("scan", {"folder": ""})),
    "broken": asking(Call("broken", {"x": ""})),
    "invalid": asking(Call("weather", {"town": ""})),
    "cut": lambda request: Turn(text=LONG, fault=Cut(after_events=6)),
    "cutcall": lambda request: Turn(text="Look.", calls=(WEATHER,), fault=Cut(after_events=5)),
    "refused": lambda request: Turn(fault=Refuse(status=429, retry_after_s=7)),
    "approve": asking(Call("delete", {"path": ""})),
    "deny": asking(Call("delete", {"path": ""})),
    "mixed": asking(Call("delete", {"path": ""}), Call("delete", {"path": ""})),
    "nested": asking(Call("cleaner", {"prompt": ""})),
    "nested_later": asking(Call("cleaner", {"prompt": ""})),
    "cleaner": asking(Call("delete", {"path": ""})),
    "halt_tool": asking(Call("hold", {"x": ""})),
    "retry": failing_once(),
    "edit": asking(Call("delete", {"path": ""})),
    "two": asking(WEATHER),
    "stop": lambda request: Turn(text=LONG, pace=Pace(tokens_per_s=100)),
    "regenerate": asking(WEATHER),
    "agent": asking(Call("scout", {"prompt": ""})),
    "ask_page": asking(Call("ask_page")),
    "approve5": asking(Call("delete", {"path": ""})),
    "later5": asking(Call("delete", {"path": ""})),
    "deny5": asking(Call("delete", {"path": ""})),
    "reload": lambda request: Turn(text=LONG, pace=Pace(tokens_per_s=600)),
    "halt": lambda request: Turn(text=LONG, pace=Pace(tokens_per_s=100)),
    "comeback": lambda request: (
        Turn(text=LONG, pace=Pace(tokens_per_s=600))
        if request.messages[-1].role == Role.TOOL
        else Turn(text="Let me see.", calls=(Call("delete", {"path": "notes.txt"}),))
    ),
    "interrupt": lambda request: (
        Turn(text="Hello you.")
        if request.messages[-1].text == "Briefly"
        else Turn(text=LONG, pace=Pace(tokens_per_s=100))
    ),
    "idle": lambda request: Turn(text="Hello you."),
    "later": asking(Call("delete", {"path": ""})),
    "signed": asking(Call("delete", {"path": ""})),
    "forged": asking(Call("delete", {"path": ""})),
    "twice": repeating(*OSLO_LIMA),
    "again": AGAIN,
    "again_signed": AGAIN,
    "again_later": AGAIN,
    "scout": asking(WEATHER),
}
RESUMED = {"reload", "idle", "comeback"}
"""Cases of pages that ask for the response in progress when they have loaded."""

APPROVALS = {"approve", "deny", "edit", "later", "comeback", "signed", "forged"}
APPROVALS |= {"again", "again_signed", "again_later", "mixed", "nested", "nested_later"}
"""Cases that npm ai 5 cannot play."""
APPROVALS_OF_5 = {"approve5", "later5", "deny5"}
"""Those that it plays instead."""


def cases_of(package: str) -> list[str]:
    """What the package can play; `scout` is the sub-agent of another case."""
    apart = {"scout", "cleaner"} | (APPROVALS if major_of(package) == 5 else APPROVALS_OF_5)
    return [case for case in TURNS if case not in apart]


@asynccontextmanager
async def served() -> AsyncIterator[str]:
    """A backend for pages: the address begins with the package and the case that use it."""
    async with Simulator(lambda request, number: TURNS[request.model](request)) as simulator:
        chats = {name: vercel.Chats("memory:", agent_of(name, simulator.url)) for name in TURNS}

        async def answer(request: web.Request) -> web.StreamResponse:
            package, case = request.match_info.values()
            if case in ("signed", "forged", "again_signed"):
                return await with_client_history(request, agent_of(case, simulator.url))
            body = await chats[case].answer(await request.read(), user=package, version=major_of(package))
            return await respond(request, body)

        async def again(request: web.Request) -> web.StreamResponse:
            package, case, chat_id = request.match_info.values()
            return await respond(
                request, await chats[case].resume(chat_id, user=package, version=major_of(package))
            )

        async def stop(request: web.Request) -> web.StreamResponse:
            package, case, chat_id = request.match_info.values()
            return web.json_response(await chats[case].stop(chat_id, user=package))

        async def load(request: web.Request) -> web.StreamResponse:
            package, case, chat_id = request.match_info.values()
            messages = await chats[case].load(
                chat_id, user=package, resume=case in RESUMED, version=major_of(package)
            )
            return web.json_response(messages)

        application = web.Application()
        application.router.add_get("/{package}/{case}/{id}/stream", again)
        application.router.add_post("/{package}/{case}/{id}/stop", stop)
        application.router.add_get("/{package}/{case}/{id}", load)
        application.router.add_post("/{package}/{case}", answer)
        runner = web.AppRunner(application)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            host, port = runner.addresses[0][:2]
            yield f"http://{host}:{port}"
        finally:
            await runner.cleanup()
            for backend in chats.values():
                await backend.aclose()


async def with_client_history(request: web.Request, agent: ls.Agent[Any, Any]) -> web.StreamResponse:
    """A backend without a store: the page has the conversation."""
    try:
        asked = vercel.read(await request.read(), history="client", approval_key=KEY)
    except ls.InvalidRequest as error:
        return await respond(request, Body.plain(400, str(error)))
    message_id = asked.continues or f"msg_{len(asked.messages)}"
    version = major_of(request.match_info["package"])
    writer = vercel.Writer(version=version, message_id=message_id, approval_key=KEY)
    if asked.decisions:
        run = agent.resume(asked.suspension(agent.name), asked.decisions)
    else:
        run = agent.stream(asked.messages)
    return await respond(request, Body(vercel.PageRun(run), writer))


def agent_of(case: str, url: str) -> ls.Agent[Any, Any]:
    def model(name: str) -> ls.Model:
        return ls.Model(f"openai:{name}", base_url=f"{url}/v1", api_key="k", retry=ls.Retry(max_retries=0))

    scout = ls.Agent(model("scout"), name="scout", tools=[weather])
    cleaner = ls.Agent(model("cleaner"), name="cleaner", tools=[delete])
    page_tool = ls.ToolSpec("ask_page", "Ask the page.", {"type": "object", "properties": {}})
    sub_agents = [scout.as_tool(), cleaner.as_tool()]
    return ls.Agent(model(case), tools=[weather, scan, broken, hold, delete, *sub_agents, page_tool])


def shown(page: dict[str, Any]) -> list[Any]:
    """The parts of the last message, in short."""
    parts = []
    for part in page["messages"][-1]["parts"]:
        match part["type"]:
            case "step-start":
                parts.append("|")
            case "text" | "reasoning" as kind:
                assert part.get("state", "done") == "done"
                parts.append((kind, part["text"]))
            case "data-llmstream-approval":
                pass
            case kind:
                value = part.get("output", part.get("errorText"))
                parts.append((kind.removeprefix("tool-"), part["state"], part.get("input"), value))
    return parts


SEE = ("text", "Let me see.")
OSLO = {"city": "Oslo"}
RAN = ("weather", "output-available", OSLO, "Oslo: -2")
DELETED = ("delete", "output-available", {"path": "notes.txt"}, "notes.txt is gone")
NOT_RUN = "The call was denied: not today. It has not run."
FAILED = ("broken", "output-error", {"x": "Oslo"}, "ValueError: no luck")
EXPECTED: dict[str, list[Any]] = {
    "text": ["|", ("text", "Hello you.")],
    "reasoning": ["|", ("reasoning", "Hm hm."), ("text", "Hello you.")],
    "weather": ["|", SEE, RAN, "|", ("text", "Oslo: -2")],
    "parallel": ["|", SEE, RAN, FAILED, RAN, "|", ("text", "Oslo: -2 ValueError: no luck Oslo: -2")],
    "progress": [
        "|",
        SEE,
        ("scan", "output-available", {"folder": "notes"}, {"done": 3}),
        "|",
        ("text", '{"done":3}'),
    ],
    "broken": [
        "|",
        SEE,
        ("broken", "output-error", {"x": "x"}, "ValueError: no luck"),
        "|",
        ("text", "ValueError: no luck"),
    ],
    "approve": [
        "|",
        SEE,
        ("delete", "output-available", {"path": "notes.txt"}, "notes.txt is gone"),
        "|",
        ("text", "notes.txt is gone"),
    ],
    "deny": [
        "|",
        SEE,
        ("delete", "output-denied", {"path": "notes.txt"}, None),
        "|",
        ("text", NOT_RUN),
    ],
    "edit": [
        "|",
        SEE,
        ("delete", "output-available", {"path": "draft.txt"}, "draft.txt is gone"),
        "|",
        ("text", "draft.txt is gone"),
    ],
    "two": [
        "|",
        SEE,
        ("weather", "output-available", {"city": "Lima"}, "Lima: -2"),
        "|",
        ("text", "Lima: -2"),
    ],
    "regenerate": ["|", SEE, RAN, "|", ("text", "Oslo: -2")],
    "agent": [
        "|",
        SEE,
        ("scout", "output-available", {"prompt": "Oslo"}, "Oslo: -2"),
        "|",
        ("text", "Oslo: -2"),
    ],
    "ask_page": [
        "|",
        SEE,
        ("ask_page", "output-available", {}, {"place": "Oslo"}),
        "|",
        ("text", '{"place":"Oslo"}'),
    ],
    "reload": ["|", ("text", LONG)],
    "idle": ["|", ("text", "Hello you.")],
    "interrupt": ["|", ("text", "Hello you.")],
    "comeback": [
        "|",
        SEE,
        ("delete", "output-available", {"path": "notes.txt"}, "notes.txt is gone"),
        "|",
        ("text", LONG),
    ],
}


EXPECTED |= dict.fromkeys(("approve5", "later5", "later", "signed"), EXPECTED["approve"])
EXPECTED["mixed"] = [
    "|",
    SEE,
    ("delete", "output-available", {"path": "notes.txt"}, "notes.txt is gone"),
    ("delete", "output-denied", {"path": "notes.txt"}, None),
    "|",
    ("text", f"notes.txt is gone {NOT_RUN}"),
]
EXPECTED["nested"] = [
    "|",
    SEE,
    ("cleaner", "output-available", {"prompt": "notes.txt"}, "notes.txt is gone"),
    "|",
    DELETED,
    "|",
    ("text", "notes.txt is gone"),
]
EXPECTED["nested_later"] = EXPECTED["nested"]
EXPECTED["retry"] = EXPECTED["text"]
EXPECTED["deny5"] = [
    "|",
    SEE,
    ("delete", "output-error", {"path": "notes.txt"}, NOT_RUN),
    "|",
    ("text", NOT_RUN),
]
RAN_IN_LIMA = ("weather", "output-available", {"city": "Lima"}, "Lima: -2")

EXPECTED["twice"] = ["|", RAN, "|", RAN_IN_LIMA, "|", ("text", "Lima: -2")]
EXPECTED["again"] = ["|", RAN, "|", DELETED, "|", RAN_IN_LIMA, "|", ("text", "Lima: -2")]
EXPECTED |= dict.fromkeys(("again_signed", "again_later"), EXPECTED["again"])


def check(case: str, page: dict[str, Any]) -> None:
    """Whether a page shows what it should at the end of a case."""
    match case:
        case "cut" | "cutcall":
            check_failure(page)
        case "refused":
            assert (page["status"], page["errors"]) == ("error", ["The model is busy. Try again in 7 s."])
            assert [message["role"] for message in page["messages"]] == ["user"]
        case "invalid":
            assert page["status"] == "ready"
            (part,) = [part for part in page["messages"][-1]["parts"] if part["type"] == "tool-weather"]
            assert part["state"] == "output-error"
        case "forged":
            assert page["status"] == "error"
            assert "altered" in page["errors"][0]
            assert "is gone" not in str(page)
        case "halt":
            check_stopped(page)
        case "halt_tool":
            _, stopped, _, answer = page["messages"]
            assert (page["status"], page["errors"]) == ("ready", [])
            assert stopped["parts"][-1]["state"] == "output-error"
            assert "cancelled" in stopped["parts"][-1]["errorText"]
            assert answer["parts"][-1]["text"] == "Let me see."
        case "stop":
            assert page["status"] == "ready"
            # 5.0.20 does not call `onFinish` after a stop.
            assert [finish["isAbort"] for finish in page["finishes"]] in ([True], [])
            assert len(page["messages"][-1]["parts"][-1]["text"]) > 10
        case _:
            broken = (
                ["The connection to the model broke. The response is incomplete."] if case == "retry" else []
            )
            assert (page["status"], page["errors"]) == ("ready", broken)
            assert shown(page) == EXPECTED[case]
            assert page["messages"][-1]["metadata"]["usage"]["outputTokens"] > 0
            assert len(page["messages"]) == (4 if case in ("two", "interrupt") else 2)


def check_failure(page: dict[str, Any]) -> None:
    """Half a response never looks complete, and its usage is shown; nothing names hosts."""
    assert page["status"] == "error"
    assert page["errors"] == ["The connection to the model broke. The response is incomplete."]
    assert "usage" in page["messages"][-1]["metadata"]
    assert "127.0.0.1" not in str(page)
    assert "streaming" not in str([part.get("state") for part in page["messages"][-1]["parts"]])


def check_stopped(page: dict[str, Any]) -> None:
    """Another tab has stopped the response: no error, and nothing that still streams."""
    assert (page["status"], page["errors"]) == ("ready", [])
    (text,) = [part for part in page["messages"][-1]["parts"] if part["type"] == "text"]
    assert text["state"] == "done"
    assert 10 < len(text["text"]) < len(LONG)
    assert "usage" in page["messages"][-1]["metadata"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "packages", [NEWEST, pytest.param(STRICT, marks=pytest.mark.slow)], ids=["newest", "strict"]
)
async def test_pages_show_what_was_run(play: Callable[..., Any], packages: tuple[str, ...]) -> None:
    """One test for all cases: the pages are played once, however many workers there are."""
    async with served() as url:
        played = await asyncio.gather(*[play(url, cases_of(name), (name,)) for name in packages])
    seen = {key: page for pages in played for key, page in pages.items()}
    assert len(seen) == sum(len(cases_of(name)) for name in packages)
    wrong = []
    for (package, case), page in seen.items():
        try:
            check(case, page)
        except AssertionError as error:
            wrong.append(f"{package}, {case}: {error}")
    assert wrong == [], "\n\n".join(wrong)
