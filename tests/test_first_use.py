"""A type that several threads use for the first time at once; see `llmstream.first_use`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import sys, threading
from llmstream.simulator.script import Script

sys.setswitchinterval(1e-6)
start = threading.Barrier(8)

def use():
    start.wait()
    Script.load(sys.argv[1])

threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def test_threads_load_a_script_at_once(tmp_path: Path) -> None:
    """Without the lock, 19 of 20 such programs ended in a segmentation fault."""
    script = tmp_path / "script.json"
    script.write_text('{"turns": [{"text": "good"}]}', encoding="utf-8")
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", PROGRAM, script], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
