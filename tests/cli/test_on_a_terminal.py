"""The program on a real pseudo-terminal: rendering, conversation, Ctrl-C, Ctrl-D."""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from llmstream.chats import Chat
from llmstream.simulator import Pace, Refuse, Script, Stall, Turn

fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")

EOF, INTERRUPT = "\x04", "\x03"
_LONGEST_S = 30
_WITHOUT_RICH = (
    "import sys; sys.modules['rich'] = None\nfrom llmstream.cli import main; sys.exit(main(sys.argv[1:]))"
)


def _own_terminal() -> None:
    """In the child: its standard input becomes the terminal that Ctrl-C is typed on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Session:
    """The program on a terminal. What is expected is waited for, and fails if it does not come."""

    def __init__(self, *argv: object, code: str = "", **env: str) -> None:
        self.terminal, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        program = ["-c", code] if code else ["-m", "llmstream"]
        self._process = subprocess.Popen(
            [sys.executable, *program, *map(str, argv)],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", **env},
            start_new_session=True,
            preexec_fn=_own_terminal,
        )
        os.close(theirs)
        self._raw = b""
        self._seen = 0

    @property
    def text(self) -> str:
        """Everything that was written, with every control."""
        return self._raw.decode("utf-8", "ignore")

    def expect(self, words: str) -> None:
        """Reads until the words stand behind what was expected before."""
        deadline = time.monotonic() + _LONGEST_S
        while words not in self.text[self._seen :]:
            going_on = self._read() and time.monotonic() < deadline
            assert going_on, f"no {words!r} in {self.text[self._seen :]!r}"
        self._seen = self.text.index(words, self._seen) + len(words)

    def send(self, keys: str) -> None:
        """Types."""
        os.write(self.terminal, keys.encode())

    def end(self, keys: str = "") -> int:
        """Reads to the end; the exit status.

        keys: typed once a second, as by somebody who sees that nothing happens. readline has a moment
              between its prompt and its wait in which Ctrl-C is noted, and acted on at the next key only.
        """
        deadline = time.monotonic() + _LONGEST_S
        self.send(keys)
        came = len(self._raw)
        while self._read():
            if came == len(self._raw):
                self.send(keys)
            came = len(self._raw)
            assert time.monotonic() < deadline, f"it does not end: {self.text!r}"
        return self._process.wait(_LONGEST_S)

    def kill(self) -> None:
        """Whatever happened, nothing stays behind."""
        self._process.kill()
        self._process.wait()
        os.close(self.terminal)

    def _read(self) -> bool:
        if not select.select([self.terminal], [], [], 1)[0]:
            return True
        try:
            data = os.read(self.terminal, 65536)
        except OSError:  # Linux says EIO where nobody has the other end open
            data = b""
        self._raw += data
        return bool(data)


@pytest.fixture
def sessions() -> Iterator[list[Session]]:
    opened: list[Session] = []
    yield opened
    for session in opened:
        session.kill()


@pytest.fixture
def chat(simulate, sessions, monkeypatch):
    """`chat(script, *argv)`: a session of `llmstream chat` with a simulator."""
    monkeypatch.setenv("OPENAI_API_KEY", "sim-key")

    def start(script: Script, *argv: object, **options: str) -> tuple[Session, list]:
        simulator = simulate(script)
        address = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
        sessions.append(Session("chat", *address, *argv, **options))
        return sessions[-1], simulator.requests

    return start


def test_an_answer_is_rendered_and_its_end_is_told(chat, screen):
    pytest.importorskip("rich")
    script = Script(
        (Turn(reasoning="Hm.", text="The sky is **blue**.\n\n- so\n- it is"),), Pace(delta_s=0.02)
    )
    session, _ = chat(script, "Why?")
    assert session.end() == 0
    rows = screen.rows(session.text)
    assert screen.harmful(session.text) == []
    assert rows[:6] == ["Hm.", "", "The sky is blue.", "", " • so", " • it is"]
    assert "to first token" in session.text
    assert "tokens/s" in session.text


def test_what_could_harm_the_terminal_does_not_reach_it(chat, screen):
    evil = "a\x1b]52;c;QQ==\x07b\x1b[2Jc\x9b31md &#27;[2J \u202ee"
    session, _ = chat(Script((Turn(reasoning=evil, text=evil),)), "Why?")
    assert session.end() == 0
    assert screen.harmful(session.text) == []
    assert "52;c" not in session.text


def test_an_error_in_the_vendors_words_cannot_harm_the_terminal(chat, screen):
    session, _ = chat(Script((Turn(fault=Refuse(status=400, message="no\x1b[2J\x07 way")),)), "Why?")
    assert session.end() == 3
    assert screen.harmful(session.text) == []
    assert "no\\x1b[2J\\x07 way" in session.text


@pytest.mark.parametrize("terminal", ["xterm", "dumb"])
def test_without_rich_or_on_a_dumb_terminal_the_text_is_plain(chat, screen, terminal):
    script = Script((Turn(reasoning="Hm.", text="The sky is **blue** \x1b[2J."),))
    code = _WITHOUT_RICH if terminal == "xterm" else ""
    session, _ = chat(script, "Why?", code=code, TERM=terminal)
    assert session.end() == 0
    assert ("pip install 'llmstream-sdk[cli]'" in session.text) == (terminal == "xterm")
    assert "(thinking) Hm.\r\n\r\nThe sky is **blue** .\r\n" in session.text
    assert "\x1b" not in session.text


def test_a_conversation_keeps_its_history(chat, tmp_path):
    talk = tmp_path / "talk.json"
    script = Script((Turn(text="Blue."), Turn(text="Dark."), Turn(text="Anew.")))
    session, requests = chat(script, "--system", "Be brief.")
    session.expect("openai:m. /help for help")
    session.send("Why?\r")
    session.expect("Blue.")
    session.expect("> ")
    session.send("And\\\r")
    session.expect("… ")
    session.send("at night?\r")
    session.expect("Dark.")
    session.expect("> ")
    session.send(f"/save {talk}\r")
    session.send("/help\r")
    session.expect("begin anew")
    session.send("/dance\r")
    session.expect("there is no /dance")
    session.send("/new\r")
    session.expect("begins anew")
    session.send("Again?\r")
    session.expect("Anew.")
    session.expect("> ")
    session.send("/quit\r")
    assert session.end() == 0
    texts = [[m.text_content for m in r.request.messages] for r in requests]
    assert texts[1] == ["Be brief.", "Why?", "Blue.", "And\nat night?"]
    assert texts[2] == ["Be brief.", "Again?"]
    assert [m.text_content for m in Chat.load(talk)] == [*texts[1], "Dark."]


def test_ctrl_c_stops_an_answer_and_the_next_one_leaves(chat, tmp_path):
    talk = tmp_path / "talk.json"
    script = Script((Turn(text="one two three four", fault=Stall(after_events=4)), Turn(text="Done.")))
    session, requests = chat(script, "--save", talk)
    session.expect("> ")
    session.send("Count\r")
    session.expect("one")
    session.send(INTERRUPT)
    session.expect("stopped; what came is kept")
    session.expect("> ")
    session.send("Go on\r")
    session.expect("Done.")
    session.expect("> ")
    assert session.end(INTERRUPT) == 130
    assert "Traceback" not in session.text
    first, kept, *_ = [m.text_content for m in requests[1].request.messages]
    assert (first, kept[:3]) == ("Count", "one")
    assert [m.text_content for m in Chat.load(talk)][-2:] == ["Go on", "Done."]


def test_ctrl_d_leaves(chat):
    session, _ = chat(Script((Turn(text="Blue."),)))
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0


def test_a_failed_turn_is_told_and_can_be_said_again(chat):
    script = Script((Turn(fault=Refuse(status=400, message="not today")), Turn(text="Fine.")))
    session, requests = chat(script)
    session.expect("> ")
    session.send("Why?\r")
    session.expect("not today")
    session.expect("say it again")
    session.send("Why?\r")
    session.expect("Fine.")
    session.expect("> ")
    session.send(EOF)
    assert session.end() == 0
    assert [m.text_content for m in requests[1].request.messages] == ["Why?"]


def test_without_a_key_no_conversation_begins(sessions):
    sessions.append(Session("chat", "-m", "openai:m"))
    assert sessions[0].end() == 2
    assert "No key for openai" in sessions[0].text


def test_the_demonstration_renders(sessions, screen):
    sessions.append(Session("demo", "--no-color"))
    assert sessions[0].end() == 0
    text = "\n".join(screen.rows(sessions[0].text))
    assert screen.harmful(sessions[0].text) == []
    assert "> Ran tool: `weather`" in text
    assert "What to try next" in text


def test_ctrl_c_in_the_demonstration_leaves_quietly(sessions):
    sessions.append(Session("demo"))
    sessions[0].expect("They ask")
    sessions[0].send(INTERRUPT)
    assert sessions[0].end() == 130
    assert "Traceback" not in sessions[0].text
