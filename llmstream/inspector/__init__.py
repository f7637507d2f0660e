"""The inspector: recorded streams, bytes next to events with their times, in a local page.

    with ls.inspect():                  # traces the streams of this program
        ...
    $ llmstream inspect                 # shows them, also while they come

`trace.py` has the file; `tap.py` and `live.py` write it. `calls.py` folds it, `sources.py` reads it and
recordings, cassettes and event logs. `app.py` serves the page in `page/`, and `exporting.py` makes recordings
and tests of what it shows.
"""

from llmstream.inspector.live import Inspection, inspect

__all__ = ["Inspection", "inspect"]
