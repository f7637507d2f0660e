"""`llmstream simulate`: a server that other programs talk to."""

from __future__ import annotations

import fcntl
import json
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from llmstream.cli import main
from llmstream.cli.simulate import _since
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.simulator import Received

RECORDINGS = Path(__file__).parent / "recordings"


def address(process: subprocess.Popen[bytes]) -> str:
    return re.search(rb"http://[0-9.:]+", process.stdout.readline())[0].decode()


def stopped(process: subprocess.Popen[bytes]) -> str:
    """What it says until Ctrl-C has ended it."""
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, b"")
    return out.decode()


def post(url: str, body: object, **headers: str) -> str:
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"content-type": "application/json", **headers}
    )
    with urllib.request.urlopen(request, timeout=10) as response:
        return response.read().decode()


CHAT = {"model": "any", "stream": True, "messages": [{"role": "user", "content": "Hello"}]}


@pytest.mark.slow
def test_responds_in_every_dialect_to_ctrl_c(spawn):
    with spawn("simulate", "--port", 0) as process:
        url = address(process)
        assert "data: [DONE]" in post(f"{url}/v1/chat/completions", CHAT)
        assert '"done":true' in post(f"{url}/api/chat", CHAT)
        version = {"anthropic-version": "2023-06-01"}
        assert "event: message_stop" in post(f"{url}/v1/messages", {**CHAT, "max_tokens": 9}, **version)
        assert stopped(process).endswith("stopped after 3 requests\n")


def test_output_has_addresses_and_requests(spawn):
    """It has examples too, and one line a request."""
    with spawn("simulate", "--port", 0, "--key", "k1") as process:
        lines = [process.stdout.readline()]
        while b"OLLAMA_HOST" not in lines[-1]:
            lines.append(process.stdout.readline())
        greeting = b"".join(lines).decode()
        url = re.search("http://[0-9.:]+", greeting)[0]
        post(f"{url}/v1/chat/completions", CHAT, authorization="Bearer k1")
        with pytest.raises(urllib.error.HTTPError, match="401") as refused:
            post(f"{url}/v1/chat/completions", CHAT, authorization="Bearer wrong")
        refused.value.close()
        text = stopped(process)
    assert f"openai-chat          {url}/v1\n" in greeting
    assert f"export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=k1\n" in greeting
    assert "   1  POST /v1/chat/completions  openai-chat  any  1 message\n" in text
    assert "   2  POST /v1/chat/completions  openai-chat\n" in text
    assert "wrong" not in text


def test_a_script_and_a_pace(spawn, tmp_path):
    script = tmp_path / "script.json"
    script.write_text('{"turns": [{"text": "As scripted."}]}')
    with spawn("simulate", "--port", 0, "--script", script, "--pace", 1000) as process:
        assert "scripted" in post(f"{address(process)}/v1/chat/completions", CHAT)


def test_recording_plays_back_byte_for_byte(spawn):
    path = RECORDINGS / "openai_chat.sse"
    with spawn("simulate", "--port", 0, "--recording", path) as process:
        assert post(f"{address(process)}/v1/chat/completions", CHAT) == path.read_text()


@pytest.mark.slow
def test_unary_responses_and_any_path(spawn):
    whole = {key: value for key, value in CHAT.items() if key != "stream"}
    with spawn("simulate", "--port", 0) as process:
        url = address(process)
        assert json.loads(post(f"{url}/v1/chat/completions", whole))["object"] == "chat.completion"
        with pytest.raises(urllib.error.HTTPError, match="404") as caught:
            post(f"{url}/v1/v1/chat/completions", whole)
        assert b"Did you mean /v1/chat/completions?" in caught.value.read()
        assert "   2  POST /v1/v1/chat/completions  no dialect\n" in stopped(process)
    with spawn("simulate", "--port", 0, "--any-path") as process:
        assert "You" in post(f"{address(process)}/v1/v1/chat/completions", whole)


@pytest.mark.slow
def test_listens_on_other_hosts_if_asked(spawn):
    """In a container requests come from elsewhere, with the container's name as Host."""
    with spawn("simulate", "--port", 0, "--host", "0.0.0.0") as process:
        url = address(process).replace("0.0.0.0", "127.0.0.1")
        assert "[DONE]" in post(f"{url}/v1/chat/completions", CHAT, host="simulator:8080")
        assert stopped(process).endswith("stopped after 1 request\n")
    with spawn("simulate", "--port", 0) as process:
        url = address(process)
        with pytest.raises(urllib.error.HTTPError, match="403") as caught:
            post(f"{url}/v1/chat/completions", CHAT, host="simulator:8080")
        assert b"the Host header names another" in caught.value.read()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "localhost.", "LOCALHOST"])
def test_every_loopback_has_its_checks(host, monkeypatch):
    """A page of the web may resolve its own name to any of them."""
    made = []

    def simulator(*args: object, **options: object) -> None:
        made.append(options["allow_remote"])
        raise InvalidRequest("made")

    monkeypatch.setattr("llmstream.cli.simulate.Simulator", simulator)
    assert main(["simulate", "--host", host]) == 2
    assert made == [False]


def test_lines_continue_past_the_list_limit() -> None:
    """The list forgets its oldest entries."""
    requests = [Received(HttpRequest(f"/{n}"), f"req_sim_{n}") for n in range(5)]
    assert [number for number, _ in _since(requests, 2)] == [3, 4, 5]
    del requests[:4]
    assert [(number, one.http.url) for number, one in _since(requests, 3)] == [(5, "/4")]
    assert _since(requests, 5) == []


@pytest.mark.slow
def test_survives_the_reader_of_its_output(spawn):
    with spawn("simulate", "--port", 0) as process:
        url = address(process)
        process.stdout.close()
        for _ in range(3):
            assert "[DONE]" in post(f"{url}/v1/chat/completions", CHAT)
            time.sleep(0.2)  # it looks for requests to report every 0.1 s
        process.send_signal(signal.SIGINT)
        assert (process.wait(20), process.stderr.read()) == (0, b"")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(fcntl, "F_SETPIPE_SZ"), reason="pipes have one size here")
def test_unread_output_blocks_nothing(spawn):
    with spawn("simulate", "--port", 0) as process:
        url = address(process)
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)  # some 30 lines
        for _ in range(100):
            post(f"{url}/v1/chat/completions?{'x' * 100}", {**CHAT, "model": "m" * 60})
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_a_port_in_use_is_status_2(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["simulate", "--port", str(port)]) == 2
    assert capsys.readouterr().err == (
        f"llmstream: port {port} is in use. Pass another --port, or --port 0 for a free one.\n"
    )


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--port", "http"], "--port"),
        (["--port", "70000"], "expected a number from 0 to 65535"),
        (["--host", "no.such.host.invalid"], "cannot listen on 'no.such.host.invalid'"),
        (["--host", "192.0.2.1"], "192.0.2.1 is not an address of this machine"),
        (["--pace", "0"], "expected a number above 0"),
        (["--pace", "nan"], "expected a number such as 0.2"),
        (["--script", "/no/such"], "cannot read the script"),
        (["--script", __file__], "is not a script"),
        (["--recording", "/no/such"], "cannot read the recording"),
        (["--script", "a", "--recording", "b"], "not allowed with"),
    ],
)
def test_wrong_usage_is_status_2(argv, words, capsys):
    assert main(["simulate", *argv]) == 2
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
