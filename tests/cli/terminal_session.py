"""The program on a pseudo-terminal of its own."""

from __future__ import annotations

import os
import select
import signal
import struct
import subprocess
import sys
import time
from typing import Any

try:
    import fcntl
    import termios
except ImportError:  # Windows; the fixture `sessions` skips
    pass

EOF, INTERRUPT = "\x04", "\x03"
_LONGEST_S = 30
WITHOUT = "import sys; sys.modules['{}'] = None\nfrom llmstream.cli import main; sys.exit(main(sys.argv[1:]))"


def _own_terminal() -> None:
    """In the child: its standard input becomes the terminal that Ctrl-C is typed on."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Session:
    """The program on a terminal. What is expected is waited for, and fails if it does not come."""

    def __init__(self, *argv: object, code: str = "", columns: int = 80, **env: str) -> None:
        self.terminal, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
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


def texts_of(received: Any) -> list[str]:
    """The texts of the messages of a request."""
    return [message.text for message in received.request.messages]
