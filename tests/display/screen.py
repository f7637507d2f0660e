"""What a terminal shows of a program's output."""

from __future__ import annotations

import re


class Screen:
    """A small terminal, as high as need be: what one reads when a program has written all of it."""

    _TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|(.)", re.DOTALL)
    _OURS = re.compile(r"\x1b\[[0-9;]*[AKm]|\x1b\[\?(25|2004)[hl]|\r")
    _CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns

    def rows(self, text: str) -> list[str]:
        """The rows from the top, without blanks at their ends."""
        rows, row, column = [""], 0, 0
        for token in self._TOKEN.finditer(text):
            argument, command, character = token.groups()
            if command == "A":
                row = max(0, row - int(argument or 1))
            elif command == "K":
                rows[row] = ""
            elif character == "\n":
                row, column = row + 1, 0
                rows += [""] * (row + 1 - len(rows))
            elif character == "\r":
                column = 0
            elif character is not None:
                rows[row] = rows[row].ljust(column)
                rows[row] = rows[row][:column] + character + rows[row][column + 1 :]
                column += 1
        return [line.rstrip() for line in rows]

    def harmful(self, text: str) -> list[str]:
        """Controls in it beyond colours, erased rows, the cursor going up, and the prompt's own."""
        return self._CONTROLS.findall(self._OURS.sub("", text))
