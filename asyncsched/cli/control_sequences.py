"""Make control characters and escape sequences in other people's text harmless for a terminal.

Two rules. In our own messages, each control character is shown as an escape such as ``\x1b`` (`visible`). Output of
replicas keeps its colours and, for a single replica with the terminal to itself, cursor movement and erasing within its
own lines (`Cleaner`). An ESC passes only as the start of a complete, allowed sequence.

Patterns are compiled on first use (and cached by `re`): most short commands need none.
"""

from __future__ import annotations

import re

__all__ = ["NOT_IN_JSON", "RESET", "Cleaner", "visible"]

RESET = "\x1b[0m"
LONGEST = 256
"""The longest CSI sequence that is considered; longer ones are removed."""

# Terminals treat the characters U+0080 to U+009F, such as NEL, like ESC and a letter.
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f]"
# Characters that turn the direction of text, with which a name can show as another one.
_DIRECTION = r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
_SHOWN = rf"[\x00-\x08\x0b-\x1f\x7f-\x9f{_DIRECTION}]"
_SHOWN_IN_ONE_LINE = rf"[\x00-\x1f\x7f-\x9f{_DIRECTION}]"
NOT_IN_JSON = rf"[\x7f-\x9f{_DIRECTION}]"
"""What JSON may contain as it is, and a terminal should not."""

_LINE_END = r"\r+(?=\n)"

_SEQUENCE = (
    r"\x1b\[[ -?]*(?:(?P<final>[@-~])|(?P<open_csi>\Z))?"
    # A title, a clipboard, an image: up to its terminator, but never beyond the line. BEL ends those of one kind only.
    r"|\x1b(?:\][^\x07\n\x18\x1a\x1b\x9c]*|[PX^_][^\n\x18\x1a\x1b\x9c]*)"
    r"(?:\x07|\x9c|\x1b\\|(?P<open_string>\x1b?\Z))?"
    r"|\x1b[ -/]*(?:[0-Z\\-~]|(?P<open_escape>\Z))?"
    r"|(?P<control>[\x00-\x08\x0a-\x1f\x7f-\x9f])"
)
_COLOR = r"\x1b\[[0-9;:]*m"
_PLAIN = r"\x1b\[[0;:]*m"
# Columns, characters, and what is right of the cursor, left of it, or its whole line; a count, or a mode of erasing.
_WITHIN_THE_LINE = r"\x1b\[\d{0,4}[CDGKPX@`]"
_OVER_LINES = r"\x1b\[(\d{0,4})([ABEF])"
_BELOW = r"\x1b\[0?J"


def visible(text: str, *, one_line: bool = False) -> str:
    r"""Return the text with each control character as ``\x1b``: what it says is read, and not obeyed.

    So are characters that turn the direction of text.

    Args:
        text: Anything.
        one_line: Whether it has to stay on one line; otherwise ends of lines and tabs are kept.
    """
    if text.isprintable() or (not one_line and text.replace("\n", "").isprintable()):
        return text
    if one_line:
        return re.sub(_SHOWN_IN_ONE_LINE, _written, text)
    return re.sub(_SHOWN, _written, re.sub(_LINE_END, "", text))


def _written(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1] if ord(match[0]) > 0x9F else f"\\x{ord(match[0]):02x}"


class Cleaner:
    """Cleans the output of one replica, in pieces of any size; a sequence may be split anywhere.

    The end of a line turns colours off and ends any sequence.

    Args:
        moves: Whether the replica may move the cursor over its own lines and erase them.

    Attributes:
        moves: The same; it may be set to False at any time.
        is_colored: Whether a colour is on.
    """

    def __init__(self, *, moves: bool = False) -> None:
        self.moves = moves
        self._held = ""  # an incomplete sequence
        self._row = 0  # of the cursor, from the first line that was written
        self._rows = 0
        self.is_colored = False

    def clean(self, text: str) -> str:
        """Return the allowed part of the next piece; an incomplete sequence is held until its end comes."""
        is_idle = not self._held and not self.is_colored and not self.moves
        # The first look is the faster one, and nearly always enough.
        if is_idle and (text.removesuffix("\n").isprintable() or not re.search(_CONTROL, text)):
            return text
        text, self._held = self._held + text, ""
        return re.sub(_SEQUENCE, self._passing, text)

    def _passing(self, match: re.Match[str]) -> str:
        if (control := match["control"]) is not None:
            return self._control(control)
        whole = match[0]
        if match["open_csi"] is not None:
            # Too long: hold a short sequence without a meaning instead.
            self._held = whole if len(whole) <= LONGEST else "\x1b[" + "?" * LONGEST
        elif match["open_string"] is not None:
            self._held = whole[:2] + match["open_string"]  # its text is left out anyhow
        elif match["open_escape"] is not None:
            self._held = whole[:2]
        elif match["final"] is not None and len(whole) <= LONGEST:
            return self._csi(whole)
        return ""

    def _control(self, char: str) -> str:
        if char == "\n" or (char == "\r" and not self.moves):
            off, self.is_colored = RESET if self.is_colored else "", False
            if char == "\n":
                self._row += 1
                self._rows = max(self._rows, self._row)
            return off + char
        return char if self.moves and char in "\r\b" else ""

    def _csi(self, sequence: str) -> str:
        if re.fullmatch(_COLOR, sequence):
            self.is_colored = not re.fullmatch(_PLAIN, sequence)
            return sequence
        if not self.moves:
            return ""
        if match := re.fullmatch(_OVER_LINES, sequence):
            return self._over_lines(int(match[1] or 1) or 1, match[2])
        return sequence if re.fullmatch(_WITHIN_THE_LINE, sequence) or re.fullmatch(_BELOW, sequence) else ""

    def _over_lines(self, count: int, letter: str) -> str:
        """Move only over the replica's own lines; the lines above are not its own."""
        is_up = letter in "AF"
        count = min(count, self._row if is_up else self._rows - self._row)
        self._row += -count if is_up else count
        if not count:
            return "\r" if letter in "EF" else ""
        return f"\x1b[{count}{letter}"
