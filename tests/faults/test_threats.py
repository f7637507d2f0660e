"""Paths, TLS, floods and what may not stand in the source: threats 7, 8, 9, 13, 18 and 20, and row 52."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from faultmatrix.asking import KEY, ONCE, PATIENT, answered, ask
from faultmatrix.wires import WIRES

import llmstream as ls
from llmstream.providers.registry import find_provider
from llmstream.testing import FaultServer, Flood

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted((ROOT / "llmstream").rglob("*.py"))

NAMES = [
    "../../v1/files",
    "..",
    ".",
    "a/../../b",
    "%2e%2e%2fadmin",
    "..%2f",
    "a?key=other",
    "a#b",
    "//evil.example/x",
    "\\\\evil.example\\x",
    "a:streamGenerateContent?x=",
    "a b",
    "a\r\nx: y",
    "a\0",
    "é",
    "\ud800",
    "a@evil.example",
    "http://evil.example/",
    "a;b=c",
    "%00",
]


@pytest.fixture(params=WIRES.values(), ids=str)
def wire(request):
    return request.param


def target(request: bytes) -> str:
    return request.split(b" ", 2)[1].decode("ascii")


@pytest.mark.threat(7)
async def test_model_name_cannot_redirect_requests(wire) -> None:
    """Either it is refused before a connection, or it is one segment of the very same path."""
    async with FaultServer(answered(wire, wire.whole)) as server:
        for name in ("plain", *NAMES):
            model = ls.Model(
                f"{wire.provider}:{name}", base_url=server.url, api_key=KEY, retry=ONCE, deadlines=PATIENT
            )
            await model.stream("Hi", errors="events").collect()
        targets = [target(request) for request in server.requests]
    head, found, tail = targets[0].partition("plain")
    for path in targets:
        assert path.startswith(head)
        assert path.endswith(tail)
        inside = path[len(head) : len(path) - len(tail)]
        assert bool(inside) is bool(found)
        assert not set(inside) & set("/?#\\ ;")
        assert not {".", ".."} & set(path.partition("?")[0].split("/"))


@pytest.mark.threat(7)
@pytest.mark.parametrize("name", ["azure", "vertex", "bedrock_invoke", "vertex_anthropic"])
@pytest.mark.parametrize("model", NAMES)
def test_a_deployment_leads_nowhere_else(name, model) -> None:
    from llmstream.exchange import HttpRequest

    provider = find_provider(name)
    env = {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "AWS_REGION": "us-east-1"}

    def routed(model: str) -> str:
        http = HttpRequest("/chat/completions", b'{"model": "m"}', {})
        return provider.route("https://cloud.example/base", http, model, env).url

    plain = routed("plain")
    head, found, tail = plain.partition("plain")
    try:
        url = routed(model)
    except ls.InvalidRequest:
        return
    assert url.startswith(head)
    assert url.endswith(tail)
    if found:
        assert not set(url[len(head) : len(url) - len(tail)]) & set("/?#\\ \r\n\0")


@pytest.mark.threat(8)
def test_certificate_check_is_never_disabled() -> None:
    banned = re.compile(r"verify_ssl|CERT_NONE|check_hostname\s*=\s*False|ssl\s*=\s*False|_create_unverified")
    assert [path.name for path in SOURCES if banned.search(path.read_text())] == []


@pytest.mark.threat(9)
@pytest.mark.parametrize(
    "flood",
    [
        [b"HTTP/1.1 200 OK\r\n", Flood(b"x-a: b\r\n")],
        [b"HTTP/1.1 200 OK\r\nx: ", Flood(b"b" * 999)],
        [Flood(b"HTTP/1.1 100 Continue\r\n\r\n")],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;", Flood(b"x" * 999)],
        [b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n", Flood(b"x-t: y\r\n")],
        [b"HTTP/1.1 200 " + b"O" * 200_000, Flood(b"K")],
    ],
    ids=["headers", "one header", "answers before the answer", "chunk extension", "trailers", "reason"],
)
async def test_a_flood_of_headers_ends_typed(wire, flood) -> None:
    got = await ask(wire, flood, deadlines=ls.Deadlines(first_event_s=0.3))
    kinds = (ls.ProtocolError, ls.DeadlineExceeded, ls.NotAStream, ls.IncompleteStream, ls.LimitExceeded)
    assert isinstance(got.error, kinds)
    assert got.seconds < 3.0


def _calls(tree: ast.AST) -> set[str]:
    """The dotted names of what is called."""
    return {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}


def _imports(tree: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


@pytest.mark.threat(13)
def test_nothing_is_read_that_could_run() -> None:
    banned_calls = re.compile(
        r"^(eval|exec|compile|__import__|os\.system|os\.popen|pickle\..*|marshal\..*|shelve\..*|dill\..*|"
        r"yaml\.(load|unsafe_load|full_load).*|tempfile\.mktemp|pty\..*)$"
    )
    banned_modules = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml", "jsonpickle"}
    named = re.compile(r"eval|exec|compile|__import__|popen|system|pty|mktemp|" + "|".join(banned_modules))
    for path in SOURCES:
        if not named.search(path.read_text()):
            continue
        tree = ast.parse(path.read_text())
        assert [name for name in _calls(tree) if banned_calls.match(name)] == [], path
        assert _imports(tree) & banned_modules == set(), path


@pytest.mark.threat(10)
def test_no_command_passes_through_a_shell() -> None:
    for path in SOURCES:
        assert not re.search(r"shell\s*=\s*True|create_subprocess_shell", path.read_text()), path


@pytest.mark.threat(5)
def test_no_sql_is_made_of_texts() -> None:
    """A statement is a literal or a constant; values are parameters."""
    made = (ast.JoinedStr, ast.BinOp, ast.Call)
    for path in SOURCES:
        if ".execute" not in (text := path.read_text()):
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
                is_statement = node.func.attr in ("execute", "executemany", "executescript")
                assert not (is_statement and isinstance(node.args[0], made)), f"{path}:{node.lineno}"


@pytest.mark.threat(20)
def test_few_dependencies_and_recent_aiohttp() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[<>=!~\[; ]", name)[0]: name for name in project["dependencies"]}
    assert set(needed) <= {"aiohttp", "anyio", "docstring-parser", "msgspec"}
    version = re.search(r">=(\d+)\.(\d+)\.(\d+)", needed["aiohttp"])
    assert version is not None
    assert tuple(map(int, version.groups())) >= (3, 14, 5)


IMPORT = """
import sys, threading
def hook(event, args):
    if event.startswith(("socket.connect", "socket.getaddrinfo", "subprocess.", "os.fork", "os.exec")):
        raise SystemExit(f"{event} {args}")
    if event == "open" and args[1] and any(mode in str(args[1]) for mode in "wax+"):
        if not str(args[0]).endswith((".pyc", ".pyo")) and "__pycache__" not in str(args[0]):
            raise SystemExit(f"{event} {args}")
sys.addaudithook(hook)
import llmstream
for name in llmstream.__all__:
    try:
        getattr(llmstream, name)
    except llmstream.Unsupported:
        pass
assert threading.active_count() == 1, threading.enumerate()
import asyncio
try:
    asyncio.get_running_loop()
except RuntimeError:
    pass
else:
    raise SystemExit("a loop runs")
policy = asyncio.get_event_loop_policy()
assert getattr(policy._local, "_loop", None) is None, "a loop was made"
"""


@pytest.mark.row(52)
def test_import_has_no_side_effects() -> None:
    """It opens no connection, starts no thread and writes no file."""
    command = [sys.executable, "-B", "-W", "ignore::DeprecationWarning", "-c", IMPORT]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stderr) == (0, "")
