"""The package `wiredefects` beside this file: a proxy that puts defects into a wire."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
