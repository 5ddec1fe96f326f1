"""Print the public surface, or with ``--write`` make it what is promised."""

from __future__ import annotations

import sys

from tests.surface import PROMISED, describe

if "--write" in sys.argv[1:]:
    PROMISED.write_text(describe())
else:
    print(describe(), end="")
