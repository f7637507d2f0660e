"""`llmstream replay`, in this process and as a real one."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from llmstream import events, grammar
from llmstream.cli import main
from llmstream.cli import replay as replay_command
from llmstream.dialects.base import DIALECTS
from llmstream.middleware.caching.form import Answer, encode_answer
from llmstream.testing.cassette_file import Recorded, write_cassette

RECORDINGS = Path(__file__).parent / "recordings"
OPENAI_CHAT = RECORDINGS / "openai_chat.sse"
ANTHROPIC = RECORDINGS / "anthropic.sse"
OLLAMA = RECORDINGS / "ollama.ndjson"
EVERY = [("openai-chat", OPENAI_CHAT), ("anthropic", ANTHROPIC), ("ollama", OLLAMA)]
ALIKE = [("mistral", "openai-chat")]
"""A dialect that reads another's bytes, since what it adds to them is not in every body."""


def replay(capsys: pytest.CaptureFixture[str], *argv: object) -> tuple[int, list[events.Event], str]:
    status = main(["replay", "--json", *map(str, argv)])
    out, err = capsys.readouterr()
    return status, [events.decode(line) for line in out.splitlines()], err


def written(folder: Path, body: bytes) -> Path:
    path = folder / "body"
    path.write_bytes(body)
    return path


def run(*argv: object, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "llmstream", *map(str, argv)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=30, check=False)


@pytest.mark.parametrize(("dialect", "path"), EVERY)
def test_recording_gives_valid_events(dialect, path, capsys):
    status, found, err = replay(capsys, "--dialect", dialect, path)
    assert (status, err) == (0, "")
    assert grammar.check(found) == []
    text = "".join(e.delta for e in found if isinstance(e, events.TextDelta))
    assert text.startswith("Hello")
    assert found[-1].finish_reason == "stop"


@pytest.mark.parametrize(("dialect", "path"), EVERY)
def test_cut_recording_is_error_and_status_3(dialect, path, capsys, tmp_path):
    """The events end in error and finish."""
    body = path.read_bytes()
    status, found, err = replay(capsys, "--dialect", dialect, written(tmp_path, body[: len(body) // 2]))
    assert status == 3
    assert grammar.check(found) == []
    assert [type(e) for e in found[-2:]] == [events.ErrorEvent, events.Finish]
    assert found[-2].error.code == "incomplete-stream"
    assert err.count("\n") == 1
    assert err.startswith("llmstream: ")


def test_each_truncation_is_a_valid_sequence(capsys, tmp_path):
    for dialect, path in EVERY:
        body = path.read_bytes()
        for cut in range(0, len(body), 23):
            status, found, _ = replay(capsys, "--dialect", dialect, written(tmp_path, body[:cut]))
            assert grammar.check(found) == []
            assert status == (3 if found[-1].finish_reason == "error" else 0)


def test_transcript_aligned_without_controls(capsys):
    assert main(["replay", "--dialect", "openai-chat", str(OPENAI_CHAT)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "StreamStart"
    assert "TextDelta           'Hel'  id='0'" in lines
    assert "TextDelta           'lo \\x1b[31m'  id='0'" in lines
    assert lines[-1].startswith("Finish              'stop'  usage=(input_tokens=3 output_tokens=2")


def test_raw_shows_the_wire(capsys):
    _, found, _ = replay(capsys, "--dialect", "ollama", "--raw", OLLAMA)
    raw = [e.raw_value for e in found if isinstance(e, events.Raw)]
    assert raw == [json.loads(line) for line in OLLAMA.read_text().splitlines()]
    assert main(["replay", "--dialect", "ollama", "--raw", str(OLLAMA)]) == 0
    assert "Raw                 raw_value={'model': 'demo-3'" in capsys.readouterr().out


@pytest.mark.parametrize(("dialect", "path"), EVERY)
@pytest.mark.parametrize("wrong", list(DIALECTS))
def test_other_dialects_bytes_get_a_remedy(dialect, path, wrong, capsys):
    if wrong == dialect or (wrong, dialect) in ALIKE:
        return
    status, found, err = replay(capsys, "--dialect", wrong, path)
    assert status == 3
    assert [e.error.code for e in found if isinstance(e, events.ErrorEvent)] == ["not-a-stream"]
    assert grammar.check(found) == []
    assert f"Try --dialect {dialect}." in err


@pytest.mark.parametrize("dialect", list(DIALECTS))
@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"<!DOCTYPE html><html><body>Bad gateway</body></html>", "HTML page"),
        (b"  <html>\n<head><title>502</title>", "HTML page"),
        (b"", "empty"),
        (b"\n \n", "blank"),
        (b"\x1f\x8b\x08\x00abc", "gzip"),
        (b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n", "head"),
        (b'4f\r\ndata: {"choices": []}\n\n', "chunk"),
        (b"\x00\x01\x02\x03", "binary"),
        (b"Service unavailable\n", "It begins with 'Service unavailable"),
        (b'{"type":"stream-start","warnings":[]}\n{"type":"finish"}\n', "decoded events of llmstream"),
    ],
)
def test_what_is_no_stream_is_named(dialect, body, words, capsys, tmp_path):
    status, found, err = replay(capsys, "--dialect", dialect, written(tmp_path, body))
    assert status == 3
    assert [type(e) for e in found] == [events.StreamStart, events.ErrorEvent, events.Finish]
    assert found[1].error.code == "not-a-stream"
    assert words in err
    assert "Traceback" not in err


def test_unsupported_streams_are_named(capsys, tmp_path):
    body = b'event: response.created\ndata: {"type":"response.created","response":{"id":"resp_1"}}\n\n'
    status, _, err = replay(capsys, "--dialect", "openai-chat", written(tmp_path, body))
    assert status == 3
    assert "the OpenAI Responses API" in err


@pytest.mark.parametrize("dialect", ["openai-chat", "anthropic"])
def test_error_instead_of_stream_is_vendors(dialect, capsys, tmp_path):
    body = b'{\n "error": {"type": "rate_limit_error", "message": "Slow down"}\n}\n'
    status, found, err = replay(capsys, "--dialect", dialect, written(tmp_path, body))
    assert status == 3
    assert found[1].error.code == "rate-limited"
    assert "Slow down" in err


def test_a_whole_answer_is_read_as_one_event(capsys, tmp_path):
    answer = {
        "id": "c1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}],
    }
    status, found, _ = replay(
        capsys, "--dialect", "openai-chat", written(tmp_path, json.dumps(answer, indent=1).encode())
    )
    assert status == 0
    assert [e.delta for e in found if isinstance(e, events.TextDelta)] == ["Hi"]


def test_an_unknown_provider_is_a_warning(capsys):
    status, found, err = replay(capsys, "--dialect", "openai-chat", "--provider", "nobody", OPENAI_CHAT)
    assert status == 0
    assert found
    assert err == "llmstream: warning: unknown provider 'nobody'; decoding as plain openai-chat\n"


def test_wrong_provider_dialect_is_a_warning(capsys):
    status, _, err = replay(capsys, "--dialect", "openai-chat", "--provider", "anthropic", OPENAI_CHAT)
    assert status == 0
    assert err == (
        "llmstream: warning: anthropic speaks anthropic, not openai-chat; decoding as plain openai-chat\n"
    )


def test_a_known_provider_is_named_in_errors(capsys, tmp_path):
    path = written(tmp_path, OLLAMA.read_bytes()[:100])
    _, found, err = replay(capsys, "--dialect", "ollama", "--provider", "ollama", path)
    assert found[-2].error.provider == "ollama"
    assert "ollama: " in err


def test_vertex_speaks_plain_anthropic(capsys):
    status, _, err = replay(capsys, "--dialect", "anthropic", "--provider", "vertex", ANTHROPIC)
    assert (status, err) == (0, "")


def test_text_instead_of_bedrock_is_named(capsys):
    status, _, err = replay(capsys, "--dialect", "anthropic", "--provider", "bedrock-invoke", ANTHROPIC)
    assert status == 3
    assert "Omit --provider" in err


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--dialect", "morse", "x"], "unknown dialect 'morse'. Dialects: openai-chat, "),
        (["--dialect", "ollama", "/no/such/file"], "cannot read /no/such/file: No such file"),
        (["--dialect", "ollama", "/"], "cannot read /: Is a directory"),
        (["/no/such/file"], "there is no such file or folder. Check the path."),
        ([__file__], "--dialect"),
        (["--dialect", "ollama"], "FILE"),
        (["--dialect", "ollama", "--what", "x"], "--what"),
    ],
)
def test_wrong_usage_is_status_2_and_remedy(argv, words, capsys):
    assert main(["replay", *argv]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert "Traceback" not in err


def test_standard_input_is_read_for_a_dash(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(OLLAMA.read_bytes())))
    status, found, _ = replay(capsys, "--dialect", "ollama", "-")
    assert status == 0
    assert found[-1].finish_reason == "stop"


def test_a_process_reads_its_standard_input():
    done = run("replay", "--dialect", "ollama", "--json", "-", stdin=OLLAMA.read_bytes())
    assert done.returncode == 0
    assert [json.loads(line)["type"] for line in done.stdout.splitlines()][-1] == "finish"
    assert done.stderr == b""


def test_exit_status_reports_failed_stream():
    done = run("replay", "--dialect", "ollama", "-", stdin=OLLAMA.read_bytes()[:100])
    assert done.returncode == 3
    assert b"Traceback" not in done.stderr


def test_a_reader_that_leaves_is_no_fault(tmp_path):
    line = OLLAMA.read_bytes().splitlines(keepends=True)[0]
    body = written(tmp_path, line * 20_000)
    command = f"{sys.executable} -m llmstream replay --dialect ollama --json {body} | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert done.stdout == b'{"type":"stream-start","warnings":[]}\n'
    assert done.stderr == b""


def test_no_network_or_terminal_import():
    code = (
        "import sys; from llmstream.cli import main; "
        f"main(['replay', '--dialect', 'ollama', '--json', {str(OLLAMA)!r}]); "
        "print(sorted({m.partition('.')[0] for m in sys.modules} & {'aiohttp', 'rich', 'anyio'}), "
        "[m for m in sys.modules if m.startswith('llmstream.simulator')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert done.stderr == b"[] []\n"


# Answers that are stored as events, and the pace of a recording.

EVENTS = [
    events.StreamStart([]),
    events.TextStart("0"),
    events.TextDelta("Hello", "0"),
    events.TextEnd("0"),
    events.Finish("stop", events.Usage(1, 1, 2)),
]
TIMING = [(0.5, 2), (2.5, 3)]


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the command waits for, in a time that stands still."""
    found: list[float] = []
    monkeypatch.setattr(replay_command.time, "monotonic", lambda: 100.0)
    monkeypatch.setattr(replay_command.time, "sleep", found.append)
    return found


@pytest.mark.parametrize(
    ("pace", "expected"), [((), []), (("--pace", "original"), [0.5, 2.5]), (("--pace", "5"), [0.1, 0.5])]
)
def test_cached_answer_has_its_pace(pace, expected, tmp_path, capsys, waits):
    path = written(tmp_path, encode_answer(Answer(EVENTS, TIMING)))
    assert replay(capsys, *pace, path) == (0, EVENTS, "")
    assert waits == pytest.approx(expected)


def test_cassette_shows_all_its_answers(tmp_path, capsys, waits):
    failed = [
        events.StreamStart([]),
        events.ErrorEvent(events.ErrorInfo("overloaded", "too busy", False)),
        events.Finish("error"),
    ]
    path = tmp_path / "tape.json"
    write_cassette(path, [Recorded({"model": "a:b"}, Answer(EVENTS, TIMING)), Recorded({}, Answer(failed))])
    assert replay(capsys, path, "--pace", "2") == (3, [*EVENTS, *failed], "llmstream: too busy\n")
    assert waits == pytest.approx([0.25, 1.25, 0])


def test_recorded_folder_has_its_pace(tmp_path, capsys, waits):
    body = OLLAMA.read_bytes()
    (tmp_path / "response.bin").write_bytes(body)
    (tmp_path / "timing.jsonl").write_text(f"[0.2, 10]\n[0.4, {len(body) - 10}]\n")
    expected = replay(capsys, "--dialect", "ollama", OLLAMA)
    assert replay(capsys, "--dialect", "ollama", tmp_path) == expected
    assert replay(capsys, "--dialect", "ollama", "--pace", "original", tmp_path) == expected
    assert waits == pytest.approx([0.2, 0.4])


def test_pace_without_timing_is_a_warning(capsys):
    status, _, err = replay(capsys, "--dialect", "ollama", "--pace", "original", OLLAMA)
    assert status == 0
    assert "has no timing" in err


def test_a_body_needs_a_dialect(capsys):
    status, found, err = replay(capsys, OLLAMA)
    assert (status, found) == (2, [])
    assert "add --dialect" in err


def test_a_damaged_answer_is_reported(tmp_path, capsys):
    path = written(tmp_path, encode_answer(Answer(EVENTS))[:-30])
    status, found, err = replay(capsys, path)
    assert (status, found) == (2, [])
    assert "damaged" in err


@pytest.mark.parametrize("pace", ["fast", "0", "-1", "nan"])
def test_an_invalid_pace_is_refused(pace, capsys):
    assert main(["replay", f"--pace={pace}", str(OLLAMA)]) == 2
    assert "original or a positive number" in capsys.readouterr().err
