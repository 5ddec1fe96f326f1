"""What every backend's page has, and its tables as they are written."""

from __future__ import annotations

import re

HEADINGS = [
    "Setup",
    "Run options",
    "How an app is mapped",
    "States",
    "Logs",
    "Cancelling and deleting",
    "What happens when",
    "Scheduler Support",
    "Limits",
]


def headings(page: str) -> list[str]:
    """Return the headings of a page, those below them apart."""
    return re.findall(r"^## (.*)$", page, re.MULTILINE)


def rows(page: str, heading: str) -> list[list[str]]:
    """Return the rows of the tables under a heading of any level, up to the next one."""
    section = page.partition(f"# {heading}\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    found = re.findall(r"^\| (.*) \|$", section, re.MULTILINE)
    return [[cell.strip() for cell in re.split(r" \|(?: |$)", row)] for row in found]
