"""One prompt for each of many items: results as they are done, and a file to continue from.

    async with ls.map("openai:gpt-5-mini", reviews, prompt="Classify: {{review}}", keep="out.jsonl") as run:
        async for done in run:
            print(done.item, done.value)

Read `run.py` for the progress of a run, `asking.py` for the number of concurrent requests, retries and what
ends a run, and `keep.py` for the file.
"""

from llmstream.mapping.options import map
from llmstream.mapping.result import MapProgress, MapResult
from llmstream.mapping.run import MapRun

__all__ = ["MapProgress", "MapResult", "MapRun", "map"]
