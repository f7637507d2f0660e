"""A resumable stream: a reader leaves and comes back, the producer is killed, and the reader sees the end.

One process asks the model and writes the events to a log; another reads them. The reader continues after the
last event that it saw, as a page does that was reloaded. Then the first process is killed: whoever reads
closes the run, with its open block marked as incomplete and an error, once for everybody.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import tempfile

from _arguments import SCRIPTS, model

import llmstream as ls

LEASE_S = 3.0
"""How long a dead process goes unnoticed; the default is 10 s."""


async def produce(spec: str, address: str) -> None:
    async with ls.open_logs(address, lease_s=LEASE_S) as logs:
        live = await logs.start("story-1", ls.stream(spec, "Tell me a long story."))
        await live.wait()


async def read(address: str, producer: subprocess.Popen[bytes]) -> None:
    async with ls.open_logs(address) as logs:
        last, words = -1, 0
        async for seq, event in logs.follow("story-1", wait_s=30):
            last = seq
            if isinstance(event, ls.TextDelta):
                print(event.delta, end="", flush=True)
                words += 1
            if words == 5:
                break
        print(f"\n-- left after event {last}; the run goes on --")

        await asyncio.sleep(0.2)
        try:
            async for seq, event in logs.follow("story-1", after=last):
                assert seq == last + 1  # no gap, no repetition
                last = seq
                if isinstance(event, ls.TextDelta):
                    print(event.delta, end="", flush=True)
                    words += 1
                elif isinstance(event, ls.TextEnd):
                    print(f"\nthe text is incomplete: {event.incomplete}")
                if words == 12:
                    producer.send_signal(signal.SIGKILL)
                    producer.wait()
        except ls.errors.ProducerLost as error:
            print(f"{error.code}: {error}")
        status = await logs.status("story-1")
        assert status is not None
        print(f"the log is {status.state} at event {status.tail}, for every reader")


if __name__ == "__main__":
    spec = model(__doc__, f"sim:{SCRIPTS / 'long_story.json'}")
    if "LOG" in os.environ:
        asyncio.run(produce(spec, os.environ["LOG"]))
    else:
        logging.basicConfig(stream=sys.stdout, format="log: %(message)s")
        with tempfile.TemporaryDirectory() as folder:
            address = f"sqlite:{folder}/runs.db"
            producer = subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "LOG": address})
            asyncio.run(read(address, producer))
