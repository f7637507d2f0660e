"""`llmstream logs`: what it lists, finds, shows, exports, sums and deletes."""

from __future__ import annotations

import io
import json
import sys

import pytest

import llmstream as ls
from llmstream.chats.content import Reasoning, ToolCall, ToolResult
from llmstream.cli import main
from llmstream.store import open_store
from llmstream.store.importing import Imported, Node, add
from llmstream.usage import Usage

DAY = 86_400.0


@pytest.fixture
def store(tmp_path):
    """Two conversations: a trip of two days ago with a branch, and one about snakes of now."""
    folder = tmp_path / "state" / "llmstream"
    folder.mkdir(parents=True)
    with open_store(f"sqlite:{folder / 'chats.db'}") as found:
        at = found.clock() - 2 * DAY
        nodes = [
            Node(-1, ls.Message.user("Where is a deep fjord?"), at),
            Node(0, ls.Message.assistant(Reasoning("Hm."), ToolCall("c", "look", '{"at": 1}')), at),
            Node(1, ls.Message.tool([ToolResult("c", "in Norway", name="look")]), at),
            Node(2, ls.Message.assistant("In Norway."), at, "sim:old", Usage(1000, 10)),
            Node(-1, ls.Message.user("Where is a lake?"), at),
        ]
        assert add(found, Imported("trip", "", nodes, 3))
        answer = "See:\n```python\nprint('snake')\n```\nDone."
        pair = [
            Node(-1, ls.Message.user("Write <b>code</b>"), at + 2 * DAY),
            Node(0, ls.Message.assistant(answer), at + 2 * DAY, "openai:gpt-5-mini", Usage(2000, 20)),
        ]
        assert add(found, Imported("snake", "", pair, 1))
        yield found


@pytest.fixture
def logs(store, capsys):
    """`logs(*argv)` runs the command; returns its status and what it printed on both outputs."""

    def run(*argv: str) -> tuple[int, str, str]:
        status = main(["logs", *argv])
        return status, *capsys.readouterr()

    return run


def test_the_newest_is_listed_first(logs):
    status, out, _ = logs()
    assert status == 0
    assert out.index("snake") < out.index("trip")
    assert "> Where is a deep fjord?" in out
    assert "In Norway." in out


@pytest.mark.parametrize(
    "argv", [("-n", "1"), ("--model", "gpt*"), ("--since", "1d"), ("--model", "openai:*")]
)
def test_a_list_is_limited(logs, argv):
    assert "trip" not in logs(*argv)[1]


def test_lists_and_hits_are_json(logs):
    found = [json.loads(line) for line in logs("--json")[1].splitlines()]
    assert [info["id"] for info in found] == ["snake", "trip"]
    (hit, *_) = [json.loads(line) for line in logs("search", "fjord", "--json")[1].splitlines()]
    assert (hit["conversation"], hit["role"]) == ("trip", "user")


def test_words_are_searched(logs):
    assert "deep fjord" in logs("search", "fjord")[1]
    assert logs("-q", "fjord")[1] == logs("search", "fjord")[1]
    assert logs("search", "deep fjord")[1] == logs("search", '"deep fjord"')[1]
    assert "in Norway" in logs("search", "norway", "--role", "tool")[1]
    assert "nothing found" in logs("search", "fjord", "--since", "1d")[2]


def test_a_conversation_is_shown(logs):
    assert logs("show", "tr")[1] == (
        "**User**: Where is a deep fjord?\n\n> Ran tool: `look`\n\n**Assistant**: In Norway.\n"
    )
    assert "Write <b>code</b>" in logs("show")[1]


def test_a_tree_has_all_branches(logs):
    out = logs("show", "trip", "--tree")[1]
    assert "├─● user Where is a deep fjord?" in out
    assert "│ ● assistant In Norway.  branch 1" in out
    assert "└─○ user Where is a lake?  branch 2" in out
    nodes = [json.loads(line) for line in logs("show", "trip", "--tree", "--json")[1].splitlines()]
    assert [node["current"] for node in nodes] == [True, True, True, True, False]


def test_a_branch_is_shown_by_its_number(logs, store):
    assert logs("show", "trip", "--branch", "2")[1] == "**User**: Where is a lake?\n"
    assert logs("show", "trip", "--branch", "1", "-r")[1] == "In Norway.\n"
    status, _, err = logs("show", "trip", "--branch", "2", "-r")
    assert (status, "no answer" in err) == (2, True)
    status, _, err = logs("show", "trip", "--branch", "3")
    assert (status, "has branches 1 to 2, not 3. See: llmstream logs show trip --tree" in err) == (2, True)
    assert "one branch, not 2" in logs("show", "snake", "--branch", "2")[2]
    assert "2 branches" in logs()[1]
    assert len(store.chat("trip")) == 4


def test_the_answer_and_its_code_are_printed(logs):
    assert logs("-r")[1] == "See:\n```python\nprint('snake')\n```\nDone.\n"
    assert logs("-x")[1] == "print('snake')\n"
    assert logs("show", "trip", "-r")[1] == "In Norway.\n"
    status, _, err = logs("show", "trip", "-x")
    assert (status, "no code block" in err) == (2, True)


def test_cost_is_summed_and_drawn(logs, tmp_path):
    pytest.importorskip("genai_prices")
    out = logs("cost", "--by", "model,day", "--svg", str(tmp_path / "c.svg"))[1]
    rows = [line.split() for line in out.splitlines()]
    assert [row[0] for row in rows] == ["MODEL", "openai:gpt-5-mini", "sim:old", "total"]
    assert rows[1][2:6] == ["1", "2,000", "20", "$0.0005"]
    assert rows[2][5] == "unknown"
    drawn = (tmp_path / "c.svg").read_text()
    assert "US dollars" in drawn
    assert "gpt-5-mini" in drawn
    assert logs("cost", "--by", "colour")[0] == 2


def test_conversations_are_exported(logs, tmp_path):
    lines = [json.loads(line) for line in logs("export", "snake", "--format", "jsonl")[1].splitlines()]
    assert [m["role"] for m in lines[0]["messages"]] == ["user", "assistant"]
    (trip,) = json.loads(logs("export", "trip", "--format", "json")[1])
    assert (trip["id"], len(trip["messages"]), trip["turns"][0]["model"]) == ("trip", 4, "sim:old")
    assert logs("export", "trip")[1].startswith("# Where is a deep fjord?\n")
    file = tmp_path / "talks.html"
    assert logs("export", "--all", "--format", "html", "-o", str(file))[0] == 0
    page = file.read_text()
    assert "Write &lt;b&gt;code&lt;/b&gt;" in page
    assert "<script" not in page
    assert logs("export", "--all", "-o", str(file))[0] == 2


def test_deleting_asks_first(logs, store):
    status, _, err = logs("rm", "trip")
    assert (status, "--yes" in err, len(store.conversations())) == (2, True, 2)
    assert logs("rm", "trip", "--yes")[0] == 0
    assert [info.id for info in store.conversations()] == ["snake"]


def test_ctrl_d_deletes_nothing(logs, store, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    status, out, err = logs("rm", "trip")
    assert (status, err) == (0, "")
    assert out == "Delete trip permanently? [y/N] \n"
    assert "trip" in store.names("")


def test_old_ones_are_pruned(logs, store):
    assert logs("prune", "--yes")[0] == 2
    assert "deleted 1 conversation" in logs("prune", "--older", "1d", "--yes")[2]
    assert [info.id for info in store.conversations()] == ["snake"]


def test_an_unknown_name_is_reported(logs):
    status, _, err = logs("show", "nothing")
    assert (status, "there is no conversation 'nothing'" in err) == (2, True)


def test_a_backup_is_written(logs, tmp_path):
    assert logs("backup", str(tmp_path / "copy.db"))[0] == 0
    with open_store(f"sqlite:{tmp_path / 'copy.db'}") as copy:
        assert len(copy.conversations()) == 2


def test_nothing_kept_is_said(capsys, monkeypatch):
    assert main(["logs"]) == 2
    assert "no conversation is stored yet" in capsys.readouterr().err
    monkeypatch.setenv("LLMSTREAM_LOG", "off")
    assert main(["logs", "path"]) == 0
    assert capsys.readouterr().out == "off\n"
    assert main(["logs"]) == 2


@pytest.mark.parametrize(
    "argv", [["prune", "trip", "--older", "1d", "--yes"], ["cost", "trip"], ["path", "trip"]]
)
def test_a_name_that_would_be_ignored_is_refused(argv, logs):
    assert logs(*argv)[0] == 2
    assert "fjord" in logs("show", "trip")[1]


def test_a_name_given_twice_is_one_conversation(logs):
    assert logs("rm", "trip", "tri", "--yes")[2].strip() == "llmstream: deleted trip"
    assert (
        logs("export", "snake", "snake", "--format", "jsonl")[1]
        == logs("export", "snake", "--format", "jsonl")[1]
    )


def test_a_backup_that_cannot_be_written_does_not_accuse_the_store(logs, tmp_path):
    status, _, err = logs("backup", str(tmp_path / "none" / "copy.db"))
    assert status == 2
    assert "there is no folder" in err
    assert "chats.db" not in err
