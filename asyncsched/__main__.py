"""``python -m asyncsched`` is ``asyncsched``."""

from __future__ import annotations

from asyncsched.cli.main import main

if __name__ == "__main__":
    main()
