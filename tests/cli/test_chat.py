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

from llmstream.chats import Chat, Message
from llmstream.cli import main
from llmstream.dialects.ollama import Ollama
from llmstream.simulator import Break, Call, Cut, Pace, Refuse, Script, Stall, Turn
from llmstream.store import open_store
from llmstream.streams import http_call


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


def test_pipe_gets_only_the_response(ask):
    done = ask(says("Blue is *short* \x1b[31m.", reasoning="Hm."), "Why", "is", "the sky blue?")
    assert (done.status, done.out, done.err) == (0, "Blue is *short* \x1b[31m.\n", "")
    assert done.requests[0].messages[-1].text == "Why is the sky blue?"


def test_the_prompt_may_be_piped(ask, piped):
    piped("Why?\n")
    assert ask(says("So."), "").requests[0].messages[-1].text == "Why?"


def test_prompt_and_input_are_put_together(ask, piped):
    piped(b"  line 1\nl\xfcne 2\n")
    done = ask(says("So."), "Explain this:")
    assert done.requests[0].messages[-1].text == "Explain this:\n\n  line 1\nl\ufffdne 2"


def test_non_utf8_arguments_are_accepted(ask):
    done = ask(says("So."), "--system", "a\udcff", "b\udcff")
    assert done.status == 0, done.err
    assert [m.text for m in done.requests[0].messages] == ["a\ufffd", "b\ufffd"]


def test_options_reach_the_request(ask):
    done = ask(
        says("So."), "--system", "Be brief.", "--max-tokens", "9", "--temperature", "0.5",
        "--reasoning", "low", "Hi",
    )  # fmt: skip
    assert done.status == 0, done.err
    request = done.requests[0]
    assert request.messages[0].text == "Be brief."
    assert request.settings.max_output_tokens == 9
    assert request.settings.temperature == 0.5
    assert request.reasoning.effort == "low"


def test_tools_run_and_show_beside_response(ask):
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


@pytest.fixture
def shelf(tmp_path):
    """A file with one tool."""
    file = tmp_path / "shelf.py"
    file.write_text('def look(city: str) -> str:\n    """Looks."""\n    return f"{city} is cold"\n')
    return str(file)


LOOKS = Script((Turn(calls=(Call("look", {"city": "Oslo"}),)), Turn(text="So.")))


def test_in_a_pipe_calls_are_refused(ask, shelf):
    done = ask(LOOKS, "--tools", shelf, "Hi")
    assert (done.status, done.out) == (0, "So.\n")
    assert "look was not run: there is no terminal to ask on. To run all calls: --yes" in done.err
    (result,) = [r for m in done.requests[1].messages for r in m.tool_results]
    assert "There is no terminal to ask the user on" in result.content


def test_in_a_pipe_calls_run_with_yes(ask, shelf):
    done = ask(LOOKS, "--tools", shelf, "--yes", "Hi")
    assert (done.status, done.out) == (0, "So.\n")
    contents = [r.content for m in done.requests[1].messages for r in m.tool_results]
    assert contents == ["Oslo is cold"]


def test_schema_may_be_written_shortly(ask):
    done = ask(says('{"name": "Tom", "age": 3}'), "--schema", "name, age int", "A cat")
    assert (done.status, done.out) == (0, '{"name": "Tom", "age": 3}\n')
    assert list(done.requests[0].response_format.schema["properties"]) == ["name", "age"]


def test_without_tools_none_are_offered(ask):
    assert ask(says("So."), "Hi").requests[0].tools == ()


def test_conversation_is_saved_and_continued(ask, tmp_path):
    talk = tmp_path / "talk.json"
    done = ask(says("Blue."), "--system", "Be brief.", "--save", str(talk), "Why?")
    assert done.status == 0
    assert [m.text for m in Chat.load(talk)] == ["Be brief.", "Why?", "Blue."]
    done = ask(says("Dark."), "--continue", str(talk), "--save", str(talk), "And at night?")
    texts = ["Be brief.", "Why?", "Blue.", "And at night?"]
    assert [m.text for m in done.requests[0].messages] == texts
    assert [m.text for m in Chat.load(talk)] == [*texts, "Dark."]


def test_continuing_saves_in_the_same_file(ask, tmp_path):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--save", str(talk), "Why?")
    done = ask(says("Dark."), "--continue", str(talk), "And?")
    assert (done.status, done.err) == (0, "")
    assert [m.text for m in Chat.load(talk)] == ["Why?", "Blue.", "And?", "Dark."]


def test_continuing_elsewhere_keeps_first(ask, tmp_path):
    """The first file stays as it was."""
    talk, other = tmp_path / "talk.json", tmp_path / "other.json"
    ask(says("Blue."), "--save", str(talk), "Why?")
    before = talk.read_bytes()
    assert ask(says("Dark."), "--continue", str(talk), "--save", str(other), "And?").status == 0
    assert talk.read_bytes() == before
    assert len(Chat.load(other)) == 4


def test_saving_overwrites_nothing_unasked(ask, tmp_path):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--save", str(talk), "Why?")
    before = talk.read_bytes()
    done = ask(says("Red."), "--save", str(talk), "Another?")
    assert (done.status, done.out, done.requests) == (2, "", [])
    assert f"{talk} already exists" in done.err
    assert f"--continue {talk}" in done.err
    assert "--force" in done.err
    assert talk.read_bytes() == before
    assert ask(says("Red."), "--save", str(talk), "--force", "Another?").status == 0
    assert [m.text for m in Chat.load(talk)] == ["Another?", "Red."]


def test_failed_turn_keeps_saved_chat(ask, tmp_path):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--save", str(talk), "Why?")
    before = talk.read_bytes()
    assert ask(says("", fault=Refuse(status=400)), "--continue", str(talk), "And?").status == 3
    assert talk.read_bytes() == before


def test_the_last_conversation_goes_on(ask, tmp_path, kept):
    ask(says("Blue."), "--system", "Be brief.", "Why?")
    done = ask(says("Dark."), "-c", "And?")
    assert [m.text for m in done.requests[0].messages] == ["Be brief.", "Why?", "Blue.", "And?"]
    assert kept() == ["Be brief.", "Why?", "Blue.", "And?", "Dark."]
    assert (tmp_path / "state" / "llmstream" / "chats.db").stat().st_mode & 0o777 == 0o600


def test_an_unanswered_prompt_goes_back(ask, kept):
    ask(says("Blue."), "Why?")
    assert ask(says("", fault=Refuse(status=400)), "-c", "Lost?").status == 3
    assert kept() == ["Why?", "Blue."]
    ask(says("Dark."), "-c", "And?")
    assert kept() == ["Why?", "Blue.", "And?", "Dark."]


def test_a_named_conversation_goes_on(ask, kept):
    ask(says("Blue."), "--chat", "sky", "Why?")
    ask(says("Other."), "What?")
    assert [m.text for m in ask(says("Dark."), "--chat", "sky", "And?").requests[0].messages][:2] == [
        "Why?",
        "Blue.",
    ]
    assert kept("sky") == ["Why?", "Blue.", "And?", "Dark."]


def test_another_branch_goes_on(ask, kept, tmp_path):
    ask(says("Blue."), "--chat", "sky", "Why?")
    ask(says("Dark."), "--chat", "sky", "And at night?")
    with open_store(f"sqlite:{tmp_path / 'state' / 'llmstream' / 'chats.db'}") as store:
        chat = store.chat("sky")
        chat.branch(at=2)
        chat.append(Message.user("On Mars?"), Message.assistant("Red."))
    done = ask(says("Starry."), "--branch", "1", "And then?")
    earlier = ["Why?", "Blue.", "And at night?", "Dark."]
    assert [m.text for m in done.requests[0].messages] == [*earlier, "And then?"]
    assert kept("sky") == [*earlier, "And then?", "Starry."]
    ask(says("Dusty."), "--chat", "sky", "--branch", "2", "Why?")
    assert kept("sky") == ["Why?", "Blue.", "On Mars?", "Red.", "Why?", "Dusty."]
    with open_store(f"sqlite:{tmp_path / 'state' / 'llmstream' / 'chats.db'}") as store:
        assert len(store.chat("sky").branches()) == 2


def test_a_missing_branch_is_refused(ask, kept, tmp_path):
    ask(says("Blue."), "--chat", "sky", "Why?")
    done = ask(says("No."), "--chat", "sky", "--branch", "2", "Why?")
    assert (done.status, done.requests, "has one branch, not 2" in done.err) == (2, [], True)
    done = ask(says("No."), "--chat", "sea", "--branch", "1", "Why?")
    assert (done.status, "there is no conversation 'sea'" in done.err) == (3, True)
    done = ask(says("No."), "--continue", str(tmp_path / "a.json"), "--branch", "1", "Why?")
    assert (done.status, "-c or --chat" in done.err) == (2, True)
    assert kept("sky") == ["Why?", "Blue."]


@pytest.mark.parametrize("setting", ["--no-log", "LLMSTREAM_LOG"])
def test_a_conversation_need_not_be_kept(ask, setting, monkeypatch, tmp_path):
    monkeypatch.setenv("LLMSTREAM_LOG", "off" if setting == "LLMSTREAM_LOG" else "")
    assert ask(says("Blue."), *([setting] if setting == "--no-log" else []), "Why?").status == 0
    assert not (tmp_path / "state" / "llmstream" / "chats.db").exists()


def test_a_conversation_without_its_text(ask, monkeypatch, kept, tmp_path):
    monkeypatch.setenv("LLMSTREAM_LOG_CONTENT", "off")
    assert ask(says("Blue."), "Why?").status == 0
    assert kept() == []
    with open_store(f"sqlite:{tmp_path / 'state' / 'llmstream' / 'chats.db'}") as store:
        (turn,) = store.turns(store.last().id)
    assert (turn.state, turn.usage.output_tokens > 0) == ("done", True)
    done = ask(says("Dark."), "-c", "And?")
    assert (done.status, done.requests) == (2, [])


def test_a_broken_store_is_no_obstacle(ask, tmp_path):
    path = tmp_path / "state" / "llmstream" / "chats.db"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"no database" * 1000)
    done = ask(says("Blue."), "Why?")
    assert (done.status, done.out) == (0, "Blue.\n")
    assert "this conversation is not stored" in done.err
    assert ".recover" in done.err


def test_the_file_of_an_earlier_version_goes_on(ask, tmp_path):
    path = tmp_path / "state" / "llmstream" / "last.json"
    path.parent.mkdir(parents=True)
    Chat(Message.user("Why?"), Message.assistant("Blue.")).save(path)
    assert [m.text for m in ask(says("Dark."), "-c", "And?").requests[0].messages] == [
        "Why?",
        "Blue.",
        "And?",
    ]
    assert len(ask(says("So."), "-c", "And?").requests[0].messages) == 5


def test_a_saved_chat_is_kept_once(ask, tmp_path, kept):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--save", str(talk), "Why?")
    ask(says("Dark."), "--continue", str(talk), "And?")
    assert kept(str(talk)) == ["Why?", "Blue.", "And?", "Dark."]


def test_nothing_to_continue_is_refused(ask, monkeypatch):
    done = ask(says("Dark."), "-c", "And?")
    assert (done.status, done.requests) == (2, [])
    assert "there is no last conversation" in done.err
    monkeypatch.setenv("LLMSTREAM_HISTORY", "off")
    ask(says("Blue."), "Why?")
    monkeypatch.delenv("LLMSTREAM_HISTORY")
    assert ask(says("Dark."), "-c", "And?").status == 2


def test_unwritable_home_is_no_obstacle(ask, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/nowhere")
    assert ask(says("Blue."), "Why?").status == 0


def test_conversation_keeps_its_model(simulate, capsys, monkeypatch, tmp_path):
    simulator = simulate(says("So."))
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulator.url}/v1")
    monkeypatch.setenv("LLMSTREAM_MODEL", "openai:another")
    assert main(["chat", "-m", "openai:first", "--save", str(tmp_path / "t.json"), "Hi"]) == 0
    assert main(["chat", "-c", "And?"]) == 0
    assert main(["chat", "--continue", str(tmp_path / "t.json"), "And?"]) == 0
    assert main(["chat", "And?"]) == 0
    models = [received.request.model for received in simulator.requests]
    assert models == ["first", "first", "first", "another"]


def test_model_at_own_address_is_not_noted(ask, capsys):
    """What was said to one's own server is not to go to the vendor by leaving out --base-url."""
    ask(says("Blue."), "Why?")
    assert main(["chat", "-c", "And?"]) == 2
    assert "no model" in capsys.readouterr().err


def test_files_go_with_the_prompt(ask, tmp_path):
    image, text = tmp_path / "a.bin", tmp_path / "notes.txt"
    image.write_bytes(b"\x89PNG\r\n\x1a\n...")
    text.write_text("one\ntwo")
    done = ask(says("So."), "-a", str(image), "-a", str(text), "What", "is it?")
    assert done.status == 0, done.err
    parts = done.requests[0].messages[0].parts
    assert [part.part_kind for part in parts] == ["image", "text", "text"]
    assert parts[0].media_type == "image/png"
    assert parts[1].text == "notes.txt:\n\none\ntwo"


def test_a_pdf_alone_is_a_prompt(ask, tmp_path):
    file = tmp_path / "a.pdf"
    file.write_bytes(b"%PDF-1.7 ...")
    done = ask(says("So."), "-a", str(file))
    assert done.status == 0, done.err
    (part,) = done.requests[0].messages[0].parts
    assert (part.part_kind, part.media_type) == ("document", "application/pdf")


def test_answers_may_have_to_fit_a_schema(ask, tmp_path):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}}
    file = tmp_path / "city.json"
    file.write_text(json.dumps(schema))
    done = ask(says('{"city": "Oslo"}'), "--schema", str(file), "Which city?")
    assert (done.status, done.out) == (0, '{"city": "Oslo"}\n')
    assert list(done.requests[0].response_format.schema["properties"]) == ["city"]


def test_long_retry_wait_is_noted(ask):
    script = Script((Turn(fault=Refuse(status=429, retry_after_s=1)), Turn(text="So.")))
    done = ask(script, "Hi")
    assert (done.status, done.out) == (0, "So.\n")
    assert done.err == "llmstream: 429 rate limited, waiting 1 s (attempt 2 of 3)\n"


def test_new_system_prompt_replaces_saved(ask, tmp_path):
    talk = tmp_path / "talk.json"
    ask(says("Blue."), "--system", "Be brief.", "--save", str(talk), "Why?")
    done = ask(says("Dark."), "--continue", str(talk), "--system", "Be long.", "And?")
    assert [m.text for m in done.requests[0].messages] == ["Be long.", "Why?", "Blue.", "And?"]


def test_model_may_come_from_environment(simulate, capsys, monkeypatch):
    monkeypatch.setenv("LLMSTREAM_MODEL", "openai:from-env")
    monkeypatch.setenv("OPENAI_BASE_URL", f"{simulate(says('So.')).url}/v1")
    assert main(["chat", "Hi"]) == 0
    assert capsys.readouterr().out == "So.\n"


def test_the_simulator_needs_no_key(capsys):
    assert main(["chat", "-m", "sim:demo", "Hi"]) == 0
    assert capsys.readouterr().out.startswith("You said: Hi\n")


def test_midstream_failure_is_status_3(ask, tmp_path):
    """The text that came is printed."""
    talk = tmp_path / "talk.json"
    script = says("one two three four five six", fault=Break(after_events=6, message="on \x1b[2Jfire"))
    done = ask(script, "--save", str(talk), "Count")
    assert done.status == 3
    assert done.out.startswith("one")
    assert done.out.endswith("\n")
    assert done.err.startswith("llmstream: openai: on \\x1b[2Jfire")
    assert done.err.count("\n") == 1
    assert Chat.load(talk).last().text == done.out.rstrip("\n")


def test_broken_off_response_is_status_3(ask):
    done = ask(says("one two three four", fault=Cut(after_events=4, clean=True)), "Count")
    assert done.status == 3
    assert "ended before" in done.err


def test_a_refused_key_says_what_to_check(ask):
    done = ask(says("So."), "Hi", api_keys=["another"])
    assert (done.status, done.out) == (3, "")
    assert "OPENAI_API_KEY" in done.err
    assert "sk-of-the-tests" not in done.err


def test_refusal_is_status_3_and_quoted(ask):
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
        monkeypatch.setattr(http_call, "wait_before_retry_s", lambda *args, **kwargs: None)
        assert main(["chat", "-m", "openai:m", "--base-url", url, "Hi"]) == 3
    err = capsys.readouterr().err
    assert err.startswith("llmstream: openai: ")
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (
            ["Hi"],
            "no model given. Pass -m provider:model, or choose one with `llmstream models default`. Keys",
        ),
        (["-m", "openai", "Hi"], "provider:model"),
        (["-m", "opnai:m", "Hi"], "Did you mean openai:m?"),
        (["-m", "gpt-5", "Hi"], "Did you mean openai:gpt-5?"),
        (["-m", "nobody:m", "Hi"], "use openai:MODEL with --base-url"),
        (["-m", "openai:m", "-a", "/no/such", "Hi"], "cannot attach /no/such: No such file"),
        (["-m", "openai:m", "-a", "/bin/sh", "Hi"], "cannot attach /bin/sh: not an image"),
        (["-m", "openai:m", "-a", "/dev/null", "Hi"], "cannot attach /dev/null: the file is empty"),
        (["-m", "openai:m", "-a", "/dev/zero", "Hi"], "cannot attach /dev/zero: it is larger than 50 MB"),
        (["-m", "openai:m", "--schema", "/no/such", "Hi"], "cannot read /no/such: there is no such file"),
        (["-m", "openai:m", "--schema", __file__, "Hi"], "is not a JSON schema"),
        (["-m", "openai:m", "-c", "--continue", "x", "Hi"], "not allowed with"),
        (["-m", "openai:m"], "the prompt is empty"),
        (["-m", "openai:m", "  "], "the prompt is empty"),
        (["-m", "anthropic:m", "Hi"], "anthropic: no API key. Set ANTHROPIC_API_KEY"),
        (["-m", "openai:m", "--base-url", "ftp://x", "Hi"], "ftp://x"),
        (["-m", "openai:m", "--reasoning", "deep", "Hi"], "argument --reasoning: expected none"),
        (["-m", "openai:m", "--reasoning", "9" * 5000, "Hi"], "argument --reasoning: expected none"),
        (["-m", "openai:m", "--continue", "/no/such", "Hi"], "cannot read /no/such: No such file"),
        (["-m", "openai:m", "--continue", "And at night?"], "-c continues the last one."),
        (["-m", "openai:m", "--continue", __file__, "Hi"], "not a saved chat"),
        (["-m", "openai:m", "--save", "/no/such/folder/x", "Hi"], "there is no folder /no/such/folder"),
        (["-m", "openai:m", "--save", "/", "Hi"], "cannot write /"),
        (["-m", "openai:m", "--max-tokens", "many", "Hi"], "--max-tokens"),
        (["-m", "openai:m", "--tools", "/no/such.py", "Hi"], "there is no such file"),
        (["-m", "openai:m", "--mcp", "'", "Hi"], "is not a command"),
        (["-m", "openai:m", "--schema", "age years", "Hi"], "has the type 'years'"),
    ],
)
def test_wrong_usage_is_status_2_and_remedy(argv, words, capsys):
    assert main(["chat", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_pipe_loads_no_editor_nor_renderer(simulate):
    url = simulate(says("So.")).url
    code = (
        "import sys; from llmstream.cli import main\n"
        f"main(['chat', '-m', 'openai:m', '--base-url', '{url}/v1', 'Hi'])\n"
        "print([m for m in ('prompt_toolkit', 'readline', 'rich') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.stdout, done.stderr) == (b"So.\n", b"[]\n")


def test_text_comes_out_as_it_streams(simulate, spawn):
    url = simulate(says("Hello, world and all", fault=Stall(after_events=4))).url
    with spawn("chat", "-m", "openai:m", "--base-url", f"{url}/v1", "Hi") as chat:
        first = os.read(chat.stdout.fileno(), 100)
        assert b"Hello".startswith(first[:5])


def test_ctrl_c_stops_and_keeps_the_partial(simulate, spawn, tmp_path):
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
    assert err.decode() == f"llmstream: stopped; the partial answer is stored in {talk}\n"
    assert Chat.load(talk).last().text == (first + rest).decode().rstrip("\n")
    assert simulator.requests[0].disconnected or simulator.requests[0].done


@pytest.mark.slow
def test_a_reader_that_leaves_is_no_fault(simulate):
    script = says("line\n" * 2000, pace=Pace(delta_s=0.0005))
    url = simulate(script).url
    command = f"{sys.executable} -m llmstream chat -m openai:m --base-url {url}/v1 Hi | head -1"
    done = subprocess.run(
        command, shell=True, capture_output=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )
    assert (done.stdout, done.stderr) == (b"line\n", b"")


@pytest.mark.slow
def test_a_pipeline_of_real_processes(simulate, spawn):
    url = simulate(says("So.")).url
    command = ["chat", "-m", "openai:m", "--base-url", f"{url}/v1", "Explain:"]
    with spawn(*command, stdin=subprocess.PIPE) as chat:
        out, err = chat.communicate(b"a text", timeout=20)
    assert (chat.returncode, out, err) == (0, b"So.\n", b"")
