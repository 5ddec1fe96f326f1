"""What a component's docstring says about its arguments, in the styles that people write."""

from __future__ import annotations

import pytest

from asyncsched.components.docstring import parse_docstring

SUMMARY = "Train a model.\n\nIn two paragraphs."
HELP = {"data": "Where the data is, in two lines.", "rate": "The learning rate: small.", "words": "For the program."}

GOOGLE = """Train a model.

    In two paragraphs.

    Args:
        data (dict(str, int), optional): Where the data is,
            in two lines.
        rate: The learning rate: small.

        *words: For the program.

    Returns:
        rate: Nothing of it.
    """
GOOGLE_THAT_GOES_ON = GOOGLE.partition("    Returns:")[0] + "    And then: a last word.\n"
NUMPY = """Train a model.

    In two paragraphs.

    Parameters
    ----------
    data : str
        Where the data is,
        in two lines.
    rate : float, optional
        The learning rate: small.
    *words
        For the program.

    Returns
    -------
    AppDef
        Nothing of it.
    """
SPHINX = """Train a model.

    In two paragraphs.

    :param data: Where the data is,
        in two lines.
    :type data: str
    :param typing.Optional[float] rate: The learning rate: small.
    :param \\*words: For the program.
    :returns: Nothing of it.
    """
EPYTEXT = """Train a model.

    In two paragraphs.

    @param data: Where the data is,
        in two lines.
    @param rate: The learning rate: small.
    @param words: For the program.

    A last word.
    """
STYLES = {
    "google": GOOGLE,
    "google that goes on": GOOGLE_THAT_GOES_ON,
    "numpy": NUMPY,
    "sphinx": SPHINX,
    "epytext": EPYTEXT,
}


@pytest.mark.parametrize("text", STYLES.values(), ids=STYLES)
def test_styles(text: str) -> None:
    assert (SUMMARY, HELP) == parse_docstring(text)


def test_several_names_of_numpy_share_a_text() -> None:
    text = "Say it.\n\nParameters\n----------\nx, y : int\n    A coordinate.\nz\n"

    assert {"x": "A coordinate.", "y": "A coordinate.", "z": ""} == parse_docstring(text).arguments


@pytest.mark.parametrize("text", [None, "", "   "])
def test_nothing(text: str | None) -> None:
    assert ("", {}) == parse_docstring(text)


def test_what_is_no_section_belongs_to_the_summary() -> None:
    text = "Usage: see below.\n\nNote: this is one\nUsage\n-----\nx: y"

    assert (text, {}) == parse_docstring(text)
