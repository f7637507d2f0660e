"""`llmstream chat` in a pipe: what it asks, what it prints, how it ends."""

from __future__ import annotations

import io
import json
import os
import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from llmstream.chats import Chat
from llmstream.cli import main
from llmstream.dialects.ollama import Ollama
from llmstream.simulator import Break, Call, Cut, Pace, Refuse, Script, Stall, Turn
from llmstream.streams import call


@pytest.fixture(autouse=True)
def piped(monkeypatch):
    """Standard input holds what `piped(text)` says, by default nothing."""

    def put(text: str | bytes) -> None:
        data = text.encode() if isinstance(text, str) else text
        stdin = SimpleNamespace(buffer=io.BytesIO(data), isatty=lambda: False)
        monkeypatch.setattr(sys, "stdin", stdin)

    put("")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    return put


@pytest.fixture
def ask(simulate, capsys):
    """`ask(script, *argv)` runs the command against a simulator: status, output, notes, requests."""

    def run(script, *argv, **options):
        simulator = script if hasattr(script, "requests") else simulate(script, **options)
        status = main(["chat", "-m", "openai:m", "--base-url", f"{simulator.url}/v1", *argv])
        out, err = capsys.readouterr()
        return SimpleNamespace(
            status=status, out=out, err=err, requests=[r.request for r in simulator.requests]
        )

    return run


def says(text: str, **options) -> Script:
    return Script((Turn(text=text, **options),))


def test_a_pipe_gets_the_answer_and_nothing_else(ask):
    done = ask(says("Blue is *short* \x1b[31m.", reasoning="Hm."), "Why", "is", "the sky blue?")
    assert (done.status, done.out, done.err) == (0, "Blue is *short* \x1b[31m.\n", "")
    assert done.requests[0].messages[-1].text_content == "Why is the sky blue?"


def test_the_prompt_may_be_piped(ask, piped):
    piped("Why?\n")
    assert ask(says("So."), "").requests[0].messages[-1].text_content == "Why?"


def test_prompt_and_input_are_put_together(ask, piped):
    piped(b"  line 1\nl\xfcne 2\n")
    done = ask(says("So."), "Explain this:")
    assert done.requests[0].messages[-1].text_content == "Explain this:\n\n  line 1\nl\ufffdne 2"


def test_arguments_that_are_no_utf_8_are_no_obstacle(ask):
    done = ask(says("So."), "--system", "a\udcff", "b\udcff")
    assert done.status == 0, done.err
    assert [m.text_content for m in done.requests[0].messages] == ["a\ufffd", "b\ufffd"]


def test_options_reach_the_request(ask):
    done = ask(
        says("So."), "--system", "Be brief.", "--max-tokens", "9", "--temperature", "0.5",
        "--reasoning", "low", "Hi",
    )  # fmt: skip
    assert done.status == 0, done.err
    request = done.requests[0]
    assert request.messages[0].text_content == "Be brief."
    assert request.settings.max_output_tokens == 9
    assert request.settings.temperature == 0.5
    assert request.reasoning.effort == "low"


def test_tools_run_and_are_told_beside_the_answer(ask):
    script = Script((
        Turn(text="Let me look.", calls=(Call("weather", {"city": "Oslo"}), Call("weather", {"city": "X"}))),
        Turn(text="Cold."),
    ))  # fmt: skip
    done = ask(script, "--tools", "demo", "What is the weather?")
    assert (done.status, done.out) == (0, "Let me look.\n\nCold.\n")
    first, second = sorted(done.err.splitlines())  # they are told as they end
    assert first == "> Ran tool: `weather`"
    assert second.startswith("> Ran tool: `weather` - failed: `")
    results = [r for m in done.requests[1].messages for r in m.tool_results]
    assert json.loads(results[0].content)["sky"] == "light snow"


def test_without_tools_none_are_offered(ask):
    assert ask(says("So."), "Hi").requests[0].tools == ()


def test_a_conversation_is_saved_and_continued(ask, tmp_path):
    talk = tmp_path / "talk.json"
    done = ask(says("Blue."), "--system", "Be brief.", "--save", str(talk), "Why?")
    assert done.status == 0
    assert [m.text_content for m in Chat.load(talk)] == ["Be brief.", "Why?", "Blue."]
    done = ask(says("Dark."), "--continue", str(talk), "--save", str(talk), "And at night?")
    texts = ["Be brief.", "Why?", "Blue.", "And at night?"]
    assert [m.text_content for m in done.requests[0].messages] == texts
    assert [m.text_content for m in Chat.load(talk)] == [*texts, "Dark."]


def test_a_new_system_prompt_takes_the_place_of_the_saved_one(ask, tmp_path):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--system", "Be brief.", "--save", str(talk), "Why?")
    done = ask(says("Dark."), "--continue", str(talk), "--system", "Be long.", "And?")
    assert [m.text_content for m in done.requests[0].messages] == ["Be long.", "Why?", "Blue.", "And?"]


def test_the_model_may_come_from_the_environment(simulate, capsys, monkeypatch):
    monkeypatch.setenv("LLMSTREAM_MODEL", "openai:from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulate(says('So.')).url}/v1")
    assert main(["chat", "Hi"]) == 0
    assert capsys.readouterr().out == "So.\n"


def test_the_simulator_needs_no_key(capsys):
    assert main(["chat", "-m", "sim:demo", "Hi"]) == 0
    assert capsys.readouterr().out.startswith("You said: Hi\n")


def test_a_failure_in_the_middle_keeps_the_text_and_is_status_3(ask, tmp_path):
    talk = tmp_path / "talk.json"
    script = says("one two three four five six", fault=Break(after_events=6, message="on \x1b[2Jfire"))
    done = ask(script, "--save", str(talk), "Count")
    assert done.status == 3
    assert done.out.startswith("one")
    assert done.out.endswith("\n")
    assert done.err.startswith("llmstream: openai: on \\x1b[2Jfire")
    assert done.err.count("\n") == 1
    assert Chat.load(talk).last().text_content == done.out.rstrip("\n")


def test_an_answer_that_breaks_off_is_status_3(ask):
    done = ask(says("one two three four", fault=Cut(after_events=4, clean=True)), "Count")
    assert done.status == 3
    assert "ended before" in done.err


def test_a_refused_key_says_what_to_check(ask):
    done = ask(says("So."), "Hi", api_keys=["another"])
    assert (done.status, done.out) == (3, "")
    assert "OPENAI_API_KEY" in done.err
    assert "sk-of-the-tests" not in done.err


def test_a_refusal_is_status_3_with_the_vendors_words(ask):
    done = ask(says("", fault=Refuse(status=400, message="no such model: m")), "Hi")
    assert (done.status, done.out) == (3, "")
    assert "no such model: m" in done.err


def test_a_wrong_path_is_status_3(simulate, capsys):
    url = simulate(says("So."), dialects=[Ollama()]).url
    assert main(["chat", "-m", "openai:m", "--base-url", f"{url}/nowhere", "Hi"]) == 3
    assert "404" in capsys.readouterr().err


def test_a_refused_connection_is_status_3(capsys, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        monkeypatch.setattr(call, "wait_before_retry_s", lambda *args, **kwargs: None)
        assert main(["chat", "-m", "openai:m", "--base-url", url, "Hi"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("llmstream: openai: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["Hi"], "no model: pass -m provider:model or set LLMSTREAM_MODEL. Keys are set for openai, "),
        (["-m", "openai", "Hi"], "provider:model"),
        (["-m", "opnai:m", "Hi"], "Did you mean openai"),
        (["-m", "openai:m"], "the prompt is empty"),
        (["-m", "openai:m", "  "], "the prompt is empty"),
        (["-m", "anthropic:m", "Hi"], "No key for anthropic. Set ANTHROPIC_API_KEY"),
        (["-m", "openai:m", "--base-url", "ftp://x", "Hi"], "ftp://x"),
        (["-m", "openai:m", "--reasoning", "deep", "Hi"], "reasoning is one of"),
        (["-m", "openai:m", "--reasoning", "9" * 5000, "Hi"], "reasoning is one of"),
        (["-m", "openai:m", "--continue", "/no/such", "Hi"], "cannot read /no/such: No such file"),
        (["-m", "openai:m", "--continue", __file__, "Hi"], "not a saved chat"),
        (["-m", "openai:m", "--save", "/no/such/folder/x", "Hi"], "there is no folder /no/such/folder"),
        (["-m", "openai:m", "--save", "/", "Hi"], "cannot write /"),
        (["-m", "openai:m", "--max-tokens", "many", "Hi"], "--max-tokens"),
        (["-m", "openai:m", "--tools", "all", "Hi"], "--tools"),
    ],
)
def test_wrong_usage_is_status_2_and_says_what_to_do(argv, words, capsys):
    assert main(["chat", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_text_comes_out_as_it_streams(simulate, spawn):
    url = simulate(says("Hello, world and all", fault=Stall(after_events=4))).url
    with spawn("chat", "-m", "openai:m", "--base-url", f"{url}/v1", "Hi") as chat:
        first = os.read(chat.stdout.fileno(), 100)
        assert b"Hello".startswith(first[:5])


def test_ctrl_c_stops_the_answer_and_keeps_what_came(simulate, spawn, tmp_path):
    talk = tmp_path / "talk.json"
    simulator = simulate(says("one two three four five", fault=Stall(after_events=5)))
    with spawn(
        "chat", "-m", "openai:m", "--base-url", f"{simulator.url}/v1", "--save", talk, "Count"
    ) as chat:
        first = os.read(chat.stdout.fileno(), 100)
        chat.send_signal(signal.SIGINT)
        rest, err = chat.communicate(timeout=20)
    assert chat.returncode == 130
    assert (first + rest).startswith(b"one")
    assert err.decode() == f"llmstream: stopped; what came is kept in {talk}\n"
    assert Chat.load(talk).last().text_content == (first + rest).decode().rstrip("\n")
    assert simulator.requests[0].disconnected or simulator.requests[0].done


def test_a_reader_that_leaves_is_no_fault(simulate):
    script = says("line\n" * 2000, pace=Pace(delta_s=0.0005))
    url = simulate(script).url
    command = f"{sys.executable} -m llmstream chat -m openai:m --base-url {url}/v1 Hi | head -1"
    done = subprocess.run(
        command, shell=True, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.stdout, done.stderr) == (b"line\n", b"")


def test_a_pipeline_of_real_processes(simulate, spawn):
    url = simulate(says("So.")).url
    command = ["chat", "-m", "openai:m", "--base-url", f"{url}/v1", "Explain:"]
    with spawn(*command, stdin=subprocess.PIPE) as chat:
        out, err = chat.communicate(b"a text", timeout=20)
    assert (chat.returncode, out, err) == (0, b"So.\n", b"")
