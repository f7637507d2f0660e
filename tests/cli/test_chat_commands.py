"""Commands of a conversation on a pseudo-terminal: `/retry`, `/system`, `/edit`, approvals and others."""

from __future__ import annotations

import json
import sys

import pytest

from llmstream.chats import Chat
from llmstream.simulator import Call, Pace, Refuse, Script, Turn
from llmstream.store import open_store
from tests.cli.terminal_session import EOF, INTERRUPT, texts_of

pytestmark = pytest.mark.slow

LOOKS = Turn(text="Let me look.", calls=(Call("look", {"city": "Oslo"}),))
ASKED = "[y]es, [n]o, [a]lways, [e]dit: "


def step(session, keys: str, answer: str) -> None:
    """Waits for the prompt, types a line, and waits for what it shows."""
    session.expect("> ")
    session.send(f"{keys}\r")
    session.expect(answer)


@pytest.fixture
def tools(tmp_path):
    """A file with one tool."""
    file = tmp_path / "shelf.py"
    file.write_text('def look(city: str) -> str:\n    """Looks."""\n    return f"{city} is cold"\n')
    return file


@pytest.fixture
def editor(tmp_path):
    """`editor(code)`: a program for $EDITOR that runs the code on `file`, the name of the text."""

    def make(code: str) -> str:
        program = tmp_path / "editor"
        program.write_text(f"#!{sys.executable}\nimport sys\nfile = sys.argv[1]\n{code}\n")
        program.chmod(0o700)
        return str(program)

    return make


def results(request) -> list:
    return [result for message in request.request.messages for result in message.tool_results]


def test_an_approved_call_runs(talk, tools):
    session, requests = talk(Script((LOOKS, Turn(text="Cold."))), "--tools", tools)
    step(session, "How is Oslo?", ASKED)
    session.send("y\r")
    session.expect("Cold.")
    assert results(requests[1])[0].content == "Oslo is cold"


def test_a_refused_call_tells_the_model_why(talk, tools):
    session, requests = talk(Script((LOOKS, Turn(text="Well."))), "--tools", tools)
    step(session, "How is Oslo?", ASKED)
    session.send("what\r")
    session.expect("a runs every call")
    session.expect(ASKED)
    session.send("n too far away\r")
    session.expect("Well.")
    assert "too far away" in results(requests[1])[0].content


def test_always_asks_no_second_time(talk, tools):
    session, requests = talk(Script((LOOKS, LOOKS, Turn(text="Cold."))), "--tools", tools)
    step(session, "How is Oslo?", ASKED)
    session.send("a\r")
    session.expect("Cold.")
    assert len(requests) == 3
    assert session.text.count(ASKED) == 1


def test_two_calls_are_asked_by_name(talk, tools):
    both = Turn(calls=(Call("look", {"city": "Oslo"}), Call("look", {"city": "Rome"})))
    session, requests = talk(Script((both, Turn(text="So."))), "--tools", tools)
    step(session, "Compare.", 'look({"city":"Oslo"})\r\nRun it? ')
    session.send("n\r")
    session.expect('look({"city":"Rome"})\r\nRun it? ')
    session.send("y\r")
    session.expect("So.")
    assert ["denied" in result.content for result in results(requests[1])] == [True, False]


def test_arguments_can_be_edited(talk, tools, editor):
    edit = editor("text = open(file).read(); open(file, 'w').write(text.replace('Oslo', 'Rome'))")
    session, requests = talk(Script((LOOKS, Turn(text="So."))), "--tools", tools, EDITOR=edit)
    step(session, "How is Oslo?", ASKED)
    session.send("e\r")
    session.expect('look({"city":"Rome"})')
    session.expect("So.")
    assert results(requests[1])[0].content == "Rome is cold"


def test_an_unsaved_edit_runs_nothing(talk, tools, editor):
    session, requests = talk(Script((LOOKS, Turn(text="So."))), "--tools", tools, EDITOR=editor(""))
    step(session, "How is Oslo?", ASKED)
    session.send("e\r")
    session.expect("unchanged")
    session.expect(ASKED)
    session.send("n\r")
    session.expect("So.")
    assert "denied" in results(requests[1])[0].content


def test_ctrl_c_in_the_editor_stays_there(talk, tools, editor):
    """It reaches every process of the terminal; in vi, for example, it leaves insert mode."""
    edit = editor(
        "import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.killpg(0, signal.SIGINT)\n"
        "text = open(file).read(); open(file, 'w').write(text.replace('Oslo', 'Rome'))"
    )
    session, requests = talk(Script((LOOKS, Turn(text="So."))), "--tools", tools, EDITOR=edit)
    step(session, "How is Oslo?", ASKED)
    session.send("e\r")
    session.expect("So.")
    assert results(requests[1])[0].content == "Rome is cold"


def test_arguments_that_do_not_fit_ask_again(talk, tools, editor):
    edit = editor("open(file, 'w').write('{\"city\": 7}')")
    session, _ = talk(Script((LOOKS, Turn(text="So."))), "--tools", tools, EDITOR=edit)
    step(session, "How is Oslo?", ASKED)
    session.send("e\r")
    session.expect("Invalid arguments")
    session.expect(ASKED)
    session.send("n\r")
    session.expect("So.")


def test_ctrl_c_at_approval_stops_the_turn(talk, tools):
    session, requests = talk(Script((LOOKS, Turn(text="Blue."))), "--tools", tools)
    step(session, "How is Oslo?", ASKED)
    session.send(INTERRUPT)
    session.expect("stopped")
    step(session, "Why?", "Blue.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert "Traceback" not in session.text
    assert "cancelled" in results(requests[1])[0].content


def test_typed_ahead_is_no_approval(chat, tools):
    """A line that was typed while the model answered."""
    session, requests = chat(Script((LOOKS, Turn(text="Cold.")), Pace(delta_s=0.2)), "--tools", tools)
    step(session, "How is Oslo?", "Let")
    session.send("y\r")
    session.expect(ASKED)
    session.send("n\r")
    session.expect("Cold.")
    assert "denied" in results(requests[1])[0].content


def test_a_prompt_can_be_asked_again(talk, kept):
    session, requests = talk(Script((Turn(text="Blue."), Turn(fault=Refuse(status=400)), Turn(text="Red."))))
    step(session, "/retry", "there is no earlier prompt")
    step(session, "Why?", "Blue.")
    step(session, "/retry", "no answer; the earlier answer stays")
    assert kept() == ["Why?", "Blue."]
    step(session, "/retry", "Red.")
    session.expect("> ")
    assert list(map(texts_of, requests)) == [["Why?"]] * 3
    assert kept() == ["Why?", "Red."]


def test_retry_sends_an_unanswered_prompt(talk, tmp_path):
    """With its attachment, and not the prompt before it."""
    file = tmp_path / "notes.txt"
    file.write_text("Cold.")
    session, requests = talk(Script((Turn(text="Blue."), Turn(fault=Refuse(status=400)), Turn(text="Red."))))
    step(session, "Why?", "Blue.")
    step(session, f"/attach {file}", "sent")
    step(session, "And?", "no answer; /retry sends the prompt again")
    step(session, "/retry", "Red.")
    assert texts_of(requests[2]) == texts_of(requests[1])
    assert texts_of(requests[2])[:2] == ["Why?", "Blue."]
    assert "Cold." in texts_of(requests[2])[2]
    assert "And?" in texts_of(requests[2])[2]
    step(session, "/retry", "Red.")
    assert texts_of(requests[3]) == texts_of(requests[2])


def test_the_system_prompt_can_be_changed(talk):
    session, requests = talk(Script((Turn(text="Blue."),)), "-s", "Be brief.")
    step(session, "/system", "System prompt: Be brief.")
    step(session, "/system Be long.", "System prompt: Be long.")
    step(session, "Why?", "Blue.")
    step(session, "/system off", "There is no system prompt.")
    step(session, "And?", "Blue.")
    assert texts_of(requests[0]) == ["Be long.", "Why?"]
    assert texts_of(requests[1]) == ["Why?", "Blue.", "And?"]


def test_a_prompt_can_be_written_in_editor(talk, editor):
    edit = editor("text = open(file).read(); open(file, 'w').write(text + ' and\\nwhy?\\n')")
    session, requests = talk(Script((Turn(text="Blue."), Turn(text="Red."))), EDITOR=edit)
    step(session, "/edit How", "Blue.")
    step(session, "/undo", "Removed: How and")
    step(session, "/edit", "Red.")
    assert texts_of(requests[0]) == ["How and\nwhy?"]
    assert texts_of(requests[1]) == ["How and\nwhy? and\nwhy?"]


def test_an_empty_text_is_not_sent(talk, editor):
    session, requests = talk(Script((Turn(text="Blue."),)), EDITOR=editor("open(file, 'w')"))
    step(session, "/edit How", "nothing is sent")
    assert requests == []


def test_tokens_and_cost_are_shown(simulate, sessions, monkeypatch):
    pytest.importorskip("genai_prices")
    from tests.cli.terminal_session import Session

    monkeypatch.setenv("OPENAI_API_KEY", "k")
    url = simulate(Script((Turn(text="Blue."),))).url
    session = Session("chat", "-m", "openai:gpt-5-mini", "--base-url", f"{url}/v1")
    sessions.append(session)
    step(session, "/cost", "No tokens so far.")
    step(session, "Why?", "$0.0001")
    step(session, "/cost", "openai:gpt-5-mini: ")
    session.expect(" in, ")
    session.expect("$0.0001")


def test_a_new_conversation_keeps_the_old(talk, tmp_path, kept):
    session, _ = talk(Script((Turn(text="Blue."), Turn(text="Red."))))
    step(session, "Why?", "Blue.")
    step(session, "/new", "llmstream chat --chat ")
    session.expect("Started a new")
    step(session, "Again?", "Red.")
    session.expect("> ")
    with open_store(f"sqlite:{tmp_path}/state/llmstream/chats.db") as store:
        assert [kept(info.id) for info in store.conversations()] == [["Again?", "Red."], ["Why?", "Blue."]]


def test_unstored_conversation_is_not_lost(talk, tmp_path):
    """Its folder cannot be written: leaving says how to keep it, and a second Ctrl-D leaves."""
    file = tmp_path / "talk.json"
    (tmp_path / "state").write_text("not a folder")
    session, _ = talk(Script((Turn(text="Blue."),)))
    step(session, "Why?", "Blue.")
    session.expect("> ")
    session.send(EOF)
    session.expect("/save FILE stores it")
    step(session, f"/save {file}", "Saved to")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert [m.text for m in Chat.load(file)] == ["Why?", "Blue."]


def test_tab_completes_commands_and_files(talk, tools):
    session, _ = talk(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send("/und\t\r")
    session.expect("there is no earlier prompt")
    session.expect("> ")
    session.send(f"/tools {tools.parent}/she\t\r")
    session.expect("look: Looks.")
    session.expect("> ")
    session.send("/model opena\t\x15/help\r")
    session.expect("show this list")


def test_three_hundred_pasted_lines_are_one(talk):
    session, requests = talk(Script((Turn(text="Blue."),)))
    lines = "\n".join(f"line {number} of a long traceback" for number in range(300))
    session.expect("> ")
    session.send(f"\x1b[200~{lines}\x1b[201~")
    session.expect("line 299")
    session.send("\r")
    session.expect("Blue.")
    assert list(map(texts_of, requests)) == [[lines]]


def test_a_saved_chat_with_tools_is_valid(talk, tools, tmp_path):
    file = tmp_path / "talk.json"
    session, _ = talk(Script((LOOKS, Turn(text="Cold."))), "--tools", tools, "--yes", "--save", file)
    step(session, "How is Oslo?", "Cold.")
    session.expect("> ")
    assert json.loads(file.read_bytes())
    assert [m.text for m in Chat.load(file)][-1] == "Cold."
    assert ASKED not in session.text


def test_what_is_typed_ahead_is_not_drawn(talk):
    """It is in the next prompt."""
    session, requests = talk(Script((Turn(text="one two three four five six"),), Pace(delta_s=0.2)))
    step(session, "Count", "one")
    session.send("And?")
    session.expect("to first token")
    assert "And?" not in session.text.partition("to first token")[0]
    session.expect("> ")
    session.send("\r")
    session.expect("to first token")
    assert texts_of(requests[1])[-1] == "And?"


def test_quitting_waits_for_no_tool(talk, tmp_path):
    """It was stopped with its turn, but its thread cannot be stopped."""
    file = tmp_path / "slow.py"
    file.write_text(
        "import time\n"
        "def look(city: str) -> str:\n"
        "    print('working', flush=True)\n"
        "    time.sleep(600)\n"
        "    return city\n"
    )
    session, _ = talk(Script((LOOKS,)), "--tools", file, "--yes")
    step(session, "How is Oslo?", "working")
    session.send(INTERRUPT)
    session.expect("stopped")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
