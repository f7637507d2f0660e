"""`python -m llmstream` is `llmstream`."""

from __future__ import annotations

import sys

from llmstream.cli import main

if __name__ == "__main__":
    sys.exit(main())
