"""`python -m website pages` writes docs/reference and docs/examples; `check FOLDER` reads the built site."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pages"]:
            from website import examples, reference

            reference.write(ROOT / "docs" / "reference")
            examples.write(ROOT / "docs" / "examples")
        case ["check", folder]:
            from website.links import problems

            found = list(problems(Path(folder)))
            print(*found, sep="\n")
            sys.exit(f"{len(found)} problems in {folder}" if found else 0)
        case ["--help" | "-h"]:
            print(__doc__)
        case _:
            sys.exit(__doc__)
