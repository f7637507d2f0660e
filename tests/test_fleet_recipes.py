"""docs/recipes/ray-and-dask.md: four shards of one file, each answered by a worker, are the whole file.

The tests of DBOS run in the environment of the extra `frameworks`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

PAGE = Path(__file__).resolve().parents[1] / "docs" / "recipes" / "ray-and-dask.md"
ROWS = 40
SPEC = "sim:demo"


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    """The programs of the page as modules in a folder, and a file of rows."""
    text = PAGE.read_text(encoding="utf-8")
    for title, program in re.findall(r'^```python title="(.+?)"\n(.*?)^```', text, re.DOTALL | re.MULTILINE):
        (tmp_path / title).write_text(program, encoding="utf-8")
        sys.modules.pop(title.removesuffix(".py"), None)
    source = tmp_path / "reviews.jsonl"
    source.write_text("".join(f'{{"id": {n}, "review": "review {n}"}}\n' for n in range(ROWS)))
    monkeypatch.syspath_prepend(str(tmp_path))
    # Workers are processes of their own.
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{PAGE.parents[2]}")
    yield SimpleNamespace(source=str(source), output=str(tmp_path / "answers"), folder=tmp_path)
    for title in ("shard", "with_ray", "with_dask", "ray_actor", "with_dbos"):
        sys.modules.pop(title, None)


def answered(recipe):
    lines = [line for path in recipe.folder.glob("answers.*.jsonl") for line in path.read_text().splitlines()]
    return sorted(json.loads(line)["id"] for line in lines)


def test_four_shards_are_the_whole(recipe):
    from shard import answer_shard

    shards = [answer_shard(recipe.source, recipe.output, number, 4, SPEC) for number in range(1, 5)]
    assert shards == [10, 10, 10, 10]
    assert answered(recipe) == list(range(ROWS))
    assert answer_shard(recipe.source, recipe.output, 1, 4, SPEC) == 10  # goes on from its file
    assert answered(recipe) == list(range(ROWS))


def test_actor_labels_a_block_of_rows(recipe):
    from ray_actor import Labels

    block = {"review": ["good", "bad"], "id": [1, 2]}
    found = Labels(SPEC)(block)
    assert found["id"] == [1, 2]
    assert [label.splitlines()[0] for label in found["label"]] == [
        "You said: Classify: good",
        "You said: Classify: bad",
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own
def test_ray_answers_the_shards(recipe):
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install ray")
    from with_ray import main

    ray.init(num_cpus=2, include_dashboard=False, configure_logging=False, log_to_driver=False)
    try:
        assert main(recipe.source, recipe.output, 4, SPEC) == ROWS
    finally:
        ray.shutdown()
    assert answered(recipe) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own
def test_dask_answers_the_shards(recipe):
    distributed = pytest.importorskip(
        "distributed", reason="dask is not installed: pip install 'dask[distributed]'"
    )
    from with_dask import main

    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        assert main(client, recipe.source, recipe.output, 4, SPEC) == ROWS
    assert answered(recipe) == list(range(ROWS))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the package's own
def test_dbos_answers_the_shards(recipe):
    dbos = pytest.importorskip("dbos", reason="dbos is not installed: pip install 'llmstream-sdk[dbos]'")
    import with_dbos

    with_dbos.launch(f"sqlite:{recipe.folder / 'dbos.db'}")
    try:
        assert with_dbos.main(recipe.source, recipe.output, 4, SPEC) == ROWS
        assert answered(recipe) == list(range(ROWS))
        for path in recipe.folder.glob("answers.*"):
            path.unlink()
        # What is done is known by its id, and not done again.
        assert with_dbos.main(recipe.source, recipe.output, 4, SPEC) == ROWS
        assert answered(recipe) == []
    finally:
        dbos.DBOS.destroy(destroy_registry=True)


KILLED = """
import sys, with_dbos
with_dbos.launch(sys.argv[1])
print(with_dbos.main(*sys.argv[2:4], 4, sys.argv[4]), flush=True)
"""


@pytest.mark.slow
def test_killed_dbos_worker_goes_on(recipe):
    """Killed in the middle of its shards, and started again: each row has one line."""
    pytest.importorskip("dbos", reason="dbos is not installed: pip install 'llmstream-sdk[dbos]'")
    script = recipe.folder / "slow.json"
    script.write_text('{"turns": [{"text": "good"}], "pace": {"first_s": 0.3}}')
    command = [sys.executable, "-W", "ignore", "-c", KILLED, f"sqlite:{recipe.folder / 'dbos.db'}"]
    command += [recipe.source, recipe.output, f"sim:{script}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as first:
        deadline = time.monotonic() + 60
        while not answered(recipe):
            assert time.monotonic() < deadline
            assert first.poll() is None
            time.sleep(0.02)
        first.kill()
    assert len(answered(recipe)) < ROWS
    again = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert again.stdout.split()[-1:] == [str(ROWS)], (again.returncode, again.stderr)
    assert answered(recipe) == list(range(ROWS))
