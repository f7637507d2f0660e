"""The program on a real pseudo-terminal: rendering, conversation, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import re
import sys

import pytest

from llmstream.chats import Chat
from llmstream.simulator import Obedient, Pace, Refuse, Script, Stall, Turn
from tests.cli.terminal_session import EOF, INTERRUPT, WITHOUT, Session, texts_of

pytestmark = pytest.mark.slow


def test_response_is_rendered_with_its_end(chat, screen):
    pytest.importorskip("rich")
    script = Script(
        (Turn(reasoning="Hm.", text="The sky is **blue**.\n\n- so\n- it is"),), Pace(delta_s=0.05)
    )
    session, _ = chat(script, "Why?")
    assert session.end() == 0
    rows = screen.rows(session.text)
    assert screen.harmful(session.text) == []
    assert rows[:6] == ["Hm.", "", "The sky is blue.", "", " • so", " • it is"]
    assert "to first token" in session.text
    assert "tokens/s" in session.text


def test_harmful_text_never_reaches_terminal(chat, screen):
    evil = "a\x1b]52;c;QQ==\x07b\x1b[2Jc\x9b31md &#27;[2J \u202ee"
    session, _ = chat(Script((Turn(reasoning=evil, text=evil),)), "Why?")
    assert session.end() == 0
    assert screen.harmful(session.text) == []
    assert "52;c" not in session.text


def test_vendor_error_cannot_harm_terminal(chat, screen):
    session, _ = chat(Script((Turn(fault=Refuse(status=400, message="no\x1b[2J\x07 way")),)), "Why?")
    assert session.end() == 3
    assert screen.harmful(session.text) == []
    assert "no\\x1b[2J\\x07 way" in session.text


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_plain_without_rich_or_if_dumb(chat, screen, terminal):
    """Plain text: rich is not installed, or the terminal is dumb."""
    script = Script((Turn(reasoning="Hm.", text="The sky is **blue** \x1b[2J."),))
    code = WITHOUT.format("rich") if terminal == "xterm" else ""
    session, _ = chat(script, "Why?", code=code, TERM=terminal)
    assert session.end() == 0
    assert ("pip install 'llmstream-sdk[cli]'" in session.text) == (terminal == "xterm")
    assert "(thinking) Hm.\r\n\r\nThe sky is **blue** .\r\n" in session.text
    assert "\x1b" not in session.text


def test_a_conversation_keeps_its_history(talk, tmp_path):
    file = tmp_path / "talk.json"
    script = Script((Turn(text="Blue."), Turn(text="Dark."), Turn(text="Anew.")))
    session, requests = talk(script, "--system", "Be brief.")
    session.expect("openai:m. Type /help for help")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send("And\\\r")
    session.expect("… ")
    session.send("at night?\r")
    session.expect("Dark.")
    session.expect("> ")
    session.send(f"/save {file}\r")
    session.expect("Saved to")
    session.expect("> ")
    session.send("/help\r")
    session.expect("start a new conversation")
    session.expect("> ")
    session.send("/dance\r")
    session.expect("unknown command /dance. /help lists the commands.")
    session.expect("> ")
    session.send("/moedl\r")
    session.expect("Did you mean /model?")
    session.expect("> ")
    session.send("/new\r")
    session.expect("Started a new")
    session.expect("> ")
    session.send("Again?\r")
    session.expect("Anew.")
    session.expect("> ")
    session.send("/quit\r")
    assert session.end() == 0
    texts = list(map(texts_of, requests))
    assert texts[1] == ["Be brief.", "Why?", "Blue.", "And\nat night?"]
    assert texts[2] == ["Be brief.", "Again?"]
    assert [m.text for m in Chat.load(file)] == [*texts[1], "Dark."]


def test_pasted_lines_are_one_prompt(talk):
    session, requests = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send("\x1b[200~Traceback:\n  line 1\n\nValueError\x1b[201~")
    session.expect("ValueError")
    session.send("\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert list(map(texts_of, requests)) == [["Traceback:\n  line 1\n\nValueError"]]


def test_a_dumb_terminal_is_sent_no_controls(chat):
    session, requests = chat(Script((Turn(text="Blue."),)), TERM="dumb")
    session.expect("> ")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert "\x1b" not in session.text
    assert texts_of(requests[0]) == ["Why?"]


def test_a_pasted_path_is_no_command(talk):
    session, requests = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send("\x1b[200~/usr/bin/x: line 1\nno such file\x1b[201~")
    session.expect("such file")
    session.send("\r")
    session.expect("Blue.")
    assert texts_of(requests[0]) == ["/usr/bin/x: line 1\nno such file"]


def test_ctrl_c_stops_response_twice_leaves(talk, tmp_path):
    file = tmp_path / "talk.json"
    script = Script((Turn(text="one two three four", fault=Stall(after_events=4)), Turn(text="Done.")))
    session, requests = talk(script, "--save", file)
    session.expect("> ")
    session.send("Count\r")
    session.expect("one")
    session.send(INTERRUPT)
    session.expect("stopped; the partial answer is stored")
    session.expect("> ")
    session.send("Go on\r")
    session.expect("Done.")
    session.expect("> ")
    assert session.end(INTERRUPT) == 130
    assert "Press Ctrl-C again, or Ctrl-D, to quit." in session.text
    assert "Traceback" not in session.text
    first, kept, *_ = texts_of(requests[1])
    assert (first, kept[:3]) == ("Count", "one")
    assert [m.text for m in Chat.load(file)][-2:] == ["Go on", "Done."]


def test_double_ctrl_c_loses_nothing(talk, kept):
    """It is pressed during a response."""
    script = Script((Turn(text="one two three four", fault=Stall(after_events=4)), Turn(text="Done.")))
    session, _ = talk(script)
    session.expect("> ")
    session.send("Count\r")
    session.expect("one")
    session.send(INTERRUPT * 2)
    session.expect("stopped; the partial answer is stored")
    session.expect("> ")
    session.send("Go on\r")
    session.expect("Done.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert kept()[-1] == "Done."


def test_ctrl_c_at_the_prompt_clears_line(chat):
    pytest.importorskip("prompt_toolkit")
    session, requests = chat(Script((Turn(text="Blue."),)))
    session.expect("> ")
    for _ in range(2):
        session.send("half a line")
        session.expect("half a line")
        session.send(INTERRUPT)
        session.expect("> ")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert list(map(texts_of, requests)) == [["Why?"]]


def test_ctrl_d_leaves(talk):
    session, _ = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0


def test_failed_turn_is_shown_and_repeatable(talk):
    script = Script((Turn(fault=Refuse(status=400, message="not today")), Turn(text="Fine.")))
    session, requests = talk(script)
    session.expect("> ")
    session.send("Why?\r")
    session.expect("not today")
    session.expect("/retry sends the prompt again")
    session.expect("> ")
    session.send("Why?\r")
    session.expect("Fine.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert texts_of(requests[1]) == ["Why?"]


def test_typed_lines_are_in_next_session(talk, tmp_path):
    for keys in ("Why is the sky blue?", "\x1b[A"):
        session, requests = talk(Script((Turn(text="Blue."),)))
        session.expect("> ")
        session.send(keys)
        session.expect("Why is the sky blue?")
        session.send("\r")
        session.expect("Blue.")
        session.expect("> ")
        session.send(EOF)
        assert session.end() == 0
        assert texts_of(requests[0]) == ["Why is the sky blue?"]
    stored = tmp_path / "state" / "llmstream" / "history.jsonl"
    assert stored.read_text() == '"Why is the sky blue?"\n'
    assert stored.stat().st_mode & 0o777 == 0o600


def test_a_history_can_be_switched_off(talk, tmp_path):
    session, _ = talk(Script((Turn(text="Blue."),)), LLMSTREAM_HISTORY="off")
    session.expect("> ")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert not (tmp_path / "state").exists()


def test_the_editor_may_write_a_prompt(chat, tmp_path):
    pytest.importorskip("prompt_toolkit")
    editor = tmp_path / "editor"
    editor.write_text(f"#!{sys.executable}\nimport sys; open(sys.argv[1], 'a').write(' and why?')\n")
    editor.chmod(0o700)
    session, requests = chat(Script((Turn(text="Blue."),)), VISUAL=str(editor))
    session.expect("> ")
    session.send("How\x18\x05")
    session.expect("and why?")
    session.send("\r")
    session.expect("Blue.")
    assert texts_of(requests[0]) == ["How and why?"]


def test_a_turn_can_be_taken_back(talk):
    session, requests = talk(Script((Turn(text="Blue."), Turn(text="Dark."), Turn(text="Red."))))
    for keys, answer in (
        ("Why?", "Blue."),
        ("And at night?", "Dark."),
        ("/undo", "Removed: And at night?"),
    ):
        session.expect("> ")
        session.send(f"{keys}\r")
        session.expect(answer)
    session.expect("> ")
    session.send("At dawn?\r")
    session.expect("Red.")
    assert texts_of(requests[2]) == ["Why?", "Blue.", "At dawn?"]


def test_the_model_can_be_changed(talk):
    session, requests = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send("/model gpt-5\r")
    session.expect("Did you mean openai:gpt-5?")
    session.expect("> ")
    session.send("/model openai:other\r")
    session.expect("The model is openai:other.")
    session.expect("> ")
    session.send("Why?\r")
    session.expect("Blue.")
    assert requests[0].request.model == "other"


def test_tools_can_be_offered_and_taken_away(talk):
    session, requests = talk(Script((Turn(text="Blue."),)))
    for keys, answer in (
        ("/tools", "No tools are offered."),
        ("/tools demo", "weather: Returns the weather in a city"),
        ("Why?", "Blue."),
        ("/tools off", "No tools are offered."),
        ("And?", "Blue."),
    ):
        session.expect("> ")
        session.send(f"{keys}\r")
        session.expect(answer)
    assert [len(r.request.tools) for r in requests] == [2, 0]


def test_a_file_goes_with_the_next_prompt(talk, tmp_path):
    image = tmp_path / "a.png"
    image.write_bytes(b"\x89PNG\r\n\x1a\n...")
    session, requests = talk(Script((Turn(text="Blue."),)))
    for keys, answer in (("/attach /no/such", "No such file"), (f"/attach {image}", "sent")):
        session.expect("> ")
        session.send(f"{keys}\r")
        session.expect(answer)
    session.expect("> ")
    session.send("What is it?\r")
    session.expect("Blue.")
    parts = requests[0].request.messages[0].parts
    assert [part.part_kind for part in parts] == ["image", "text"]


def test_chat_saved_elsewhere_is_not_lost(talk, tmp_path):
    """The newer file is not overwritten."""
    other = tmp_path / "other.json"
    other.write_text("mine")
    session, _ = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send(f"/save {other}\r")
    session.expect("--force")
    assert other.read_text() == "mine"
    session.expect("> ")
    session.send(f"/save --force {other}\r")
    session.expect("Saved to")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert [m.text for m in Chat.load(other)] == ["Why?", "Blue."]


def test_a_warning_comes_once_a_session(chat):
    turns = tuple(Turn(reasoning="Hm.", text=f"Answer {n}.") for n in range(3))
    session, _ = chat(Script(turns))
    for number in range(3):
        session.expect("> ")
        session.send("Why?\r")
        session.expect(f"Answer {number}.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert session.text.count("warning: reasoning of earlier answers") == 1


def test_wait_for_next_attempt_is_shown(chat, screen):
    pytest.importorskip("rich")
    script = Script((Turn(fault=Refuse(status=429, retry_after_s=1)), Turn(text="Blue.")))
    session, _ = chat(script, "Why?")
    session.expect("429 rate limited, waiting 1 s (attempt 2 of 3)")
    session.expect("Blue.")
    assert session.end() == 0
    assert "429" not in "\n".join(screen.rows(session.text))
    assert "(1 retry)" in session.text


def test_no_conversation_without_a_key(sessions):
    sessions.append(Session("chat", "-m", "openai:m"))
    assert sessions[0].end() == 2
    assert "openai: no API key" in sessions[0].text


def test_the_demonstration_renders(sessions, screen):
    sessions.append(Session("demo", "--no-color"))
    assert sessions[0].end() == 0
    text = "\n".join(screen.rows(sessions[0].text))
    assert screen.harmful(sessions[0].text) == []
    assert "> Ran tool: `weather`" in text
    assert "Next steps" in text


@pytest.mark.parametrize("columns", [40, 80])
def test_the_demonstration_breaks_no_word(sessions, columns):
    sessions.append(Session("demo", "--no-color", columns=columns))
    assert sessions[0].end() == 0
    text = sessions[0].text.replace("\r", "")
    head, _, foot = text.partition("The user asks")[0], *text.partition("That was a stream")[1:]
    lines = [*head.splitlines(), *foot.splitlines()]
    assert [line for line in lines if len(re.sub(r"\x1b\[[0-9;]*[a-zA-Z]", "", line)) > columns] == []
    assert "  Talk to the simulator:\n    llmstream chat -m sim:demo\n" in foot


def test_ctrl_c_in_the_demo_leaves_quietly(sessions):
    sessions.append(Session("demo"))
    sessions[0].expect("The user asks")
    sessions[0].send(INTERRUPT)
    assert sessions[0].end() == 130
    assert "Traceback" not in sessions[0].text


@pytest.mark.parametrize("columns", [40, 80])
def test_providers_fit_width_set_keys_first(sessions, columns):
    sessions.append(Session("providers", columns=columns, GROQ_API_KEY="gsk-secret", LANG="C.UTF-8"))
    assert sessions[0].end() == 0
    heads, *rows = sessions[0].text.replace("\r", "").partition("\n\n")[0].splitlines()
    assert heads.split()[:2] == ["NAME", "KEY"]
    assert all(len(row) <= columns for row in rows)
    keys = {row.split()[0]: row.split()[1] for row in rows}
    assert (keys["groq"], keys["ollama"], keys["anthropic"]) == ("✓", "·", "–")
    assert list(keys.values()) == sorted(keys.values(), key="✓·–".index)
    assert not any(name.startswith("sim") for name in keys)
    assert "gsk-secret" not in sessions[0].text


def test_provider_matrix_fits_the_terminal(sessions):
    sessions.append(Session("providers", "--matrix", "azure"))
    assert sessions[0].end() == 0
    rows = sessions[0].text.replace("\r", "").splitlines()
    assert all(len(row) <= 80 for row in rows)
    assert "AUDIO" in sessions[0].text
    assert "…" not in sessions[0].text


def test_a_key_is_typed_without_echo(sessions, tmp_path):
    sessions.append(Session("keys", "set", "openai", "--file"))
    sessions[0].expect("Key for openai (not shown): ")
    sessions[0].send("sk-very-secret\r")
    assert sessions[0].end() == 0
    assert "sk-very-secret" not in sessions[0].text
    assert "sk-very-secret" in (tmp_path / "config" / "llmstream" / "keys.json").read_text()


def test_ctrl_c_stores_no_key(sessions, tmp_path):
    sessions.append(Session("keys", "set", "openai", "--file"))
    sessions[0].expect("(not shown): ")
    assert sessions[0].end(INTERRUPT) == 130
    assert "Traceback" not in sessions[0].text
    assert not (tmp_path / "config").exists()


@pytest.mark.parametrize(("answer", "status"), [("n\r", 130), (INTERRUPT, 130), ("\r", 0)])
def test_check_asks_before_it_sends(simulate, sessions, answer, status):
    server = simulate(Obedient(), models=("m",))
    session = Session("check", "-m", "vllm:m", "--base-url", f"{server.url}/v1", "--only", "text")
    sessions.append(session)
    session.expect("at most 5 requests with 2,560 output tokens (price unknown). Start? [Y/n] ")
    assert not server.requests
    assert session.end(answer) == status
    assert bool(server.requests) == (status == 0)
    assert ("1 ok." in session.text) == (status == 0)
    assert "Traceback" not in session.text


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_check_colours_follow_no_color(sessions, env, coloured):
    sessions.append(Session("check", "-m", "sim:probe", "--only", "text", **env))
    assert sessions[-1].end() == 0
    assert ("\x1b[32mok" in sessions[-1].text) == coloured
