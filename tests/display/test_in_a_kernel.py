"""Notebooks in a kernel: the example's outputs are those stored in it, and an answer grows in one output."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.slow,
    # Of pyzmq and jupyter_client, which warn about event loops and platform directories.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
nbclient = pytest.importorskip("nbclient", reason="needs the extra `test`: nbclient")
nbformat = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel", reason="needs the extra `test`: ipykernel")

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


class Recorder(nbclient.NotebookClient):
    """Runs a notebook and records the messages with which outputs begin and are replaced."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, timeout=60, kernel_name="python3", record_timing=False, **options)
        self.sent: list[tuple[str, dict[str, str]]] = []

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data"):
            self.sent.append((msg["msg_type"], msg["content"]["data"]))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(autouse=True)
def kernel_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The package of this checkout, no keys, and none of the user's settings of IPython."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def run(notebook: Any, folder: Path) -> Recorder:
    client = Recorder(notebook, resources={"metadata": {"path": str(folder)}})
    client.execute()
    return client


def outputs_of(notebook: Any) -> Iterator[tuple[str, str, str]]:
    """Each output: the cell's code, the kind and the content, without times."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            content = output["data"] if "data" in output else {output["name"]: output["text"]}
            for kind, text in sorted(content.items()):
                yield cell.source, kind, re.sub(r"\d+(\.\d+)? (ms|s)\b", "T", "".join(text))


def test_the_example_gives_its_outputs(tmp_path: Path) -> None:
    stored = nbformat.read(NOTEBOOK, 4)
    again = nbformat.read(NOTEBOOK, 4)
    for cell in again.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    run(again, tmp_path)
    shown = list(outputs_of(again))
    assert shown == list(outputs_of(stored))
    kinds = {kind for _, kind, _ in shown}
    assert kinds == {"text/markdown", "text/plain", "text/html", "stdout"}
    (table,) = [text for _, kind, text in shown if kind == "text/html"]
    assert table.count("<tr>") == 4
    assert "<code>weather</code> ✓" in table


def test_the_example_has_nothing_of_its_maker() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"/(home|root|tmp|Users)/|Traceback|Warning", text)
    assert set(json.loads(text)["metadata"]) == {"kernelspec", "language_info"}


GROWING = """\
import llmstream as ls
from llmstream.testing import Pace, Script, Simulator, Turn

turn = Turn(reasoning="Let me think. " * 20, text="It is **blue**. " * 40, pace=Pace(delta_s=0.01))
async with Simulator(Script((turn,))) as simulator:
    model = ls.Model("openai:any", base_url=simulator.url, api_key="k")
    message = await model.stream("Why?").display()
message.text == turn.text
"""


def test_an_answer_grows_in_one_output(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(GROWING)])
    client = run(notebook, tmp_path)
    begin, *updates = client.sent
    assert (begin[0], begin[1]["text/markdown"]) == ("display_data", "…")
    assert {kind for kind, _ in updates} == {"update_display_data"}
    texts = [data["text/plain"] for _, data in updates]
    assert len(texts) > 2
    assert all(after.startswith(before) for before, after in itertools.pairwise(texts))
    assert any("<details open>" in data["text/markdown"] for _, data in updates)
    shown, value = notebook.cells[0].outputs
    assert shown.data["text/markdown"].endswith(" · stop</small>")
    assert value.data["text/plain"] == "True"


FAILING = """\
import llmstream as ls
from llmstream.testing import Cut, Script, Simulator, Turn

async with Simulator(Script((Turn(text="Half of it is here", fault=Cut(after_events=4)),))) as simulator:
    model = ls.Model("openai:any", base_url=simulator.url, api_key="k")
    await model.stream("Why?").display()
"""


def test_what_came_before_an_error_stays(tmp_path: Path) -> None:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(FAILING)])
    with pytest.raises(nbclient.exceptions.CellExecutionError):
        run(notebook, tmp_path)
    shown, error = notebook.cells[0].outputs
    assert shown.data["text/plain"] in "Half of it is here"
    assert shown.data["text/plain"]
    assert error.ename in ("ConnectionLost", "IncompleteStream")
