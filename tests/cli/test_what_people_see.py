"""What people are promised of a terminal, sentence by sentence, and the tests that hold each sentence.

Each of these tests looks at a pseudo-terminal, but for those of which it is told why they do not.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent

SENTENCES: dict[str, list[str]] = {
    "a scheduler that is not set up is silent where it was not named, except in doctor": [
        "test_which_app::test_a_scheduler_that_is_not_set_up_is_silent",
        "test_which_app::test_who_names_it_is_told",
        "test_terminal_views::test_doctor_says_in_full_what_to_do",
    ],
    "if an app was found elsewhere, the exit code is 0": [
        "test_which_app::test_an_app_that_is_found_is_found_though_others_are_away",
    ],
    "all verbs take -s": ["test_which_app::test_every_verb_takes_a_scheduler"],
    "the library's error texts name no flag": ["test_library_words::test_no_text_of_the_library_names_a_flag"],
    "an exact name beats a prefix": [
        "test_which_app::test_an_exact_name_beats_a_beginning_and_the_newest_of_a_name_is_read"
    ],
    "the newest of a name for reading verbs, with a note": [
        "test_which_app::test_an_exact_name_beats_a_beginning_and_the_newest_of_a_name_is_read"
    ],
    "@last, and no app at all, mean the last one launched here": ["test_which_app::test_the_last_one_launched_here"],
    "status: state in colour, duration and end, command": [
        "test_terminal_views::test_status_of_an_app_that_failed",
        "test_terminal_views::test_status_of_an_app_that_runs_and_of_one_role",
    ],
    "status: a line for each group of equal replicas, exit codes and reasons": [
        "test_terminal_views::test_status_tells_a_line_for_each_group_of_equal_replicas"
    ],
    "status: the last five lines of the first failure's stderr": [
        "test_terminal_views::test_status_shows_the_last_five_lines_of_stderr",
        "test_terminal_views::test_why_and_last_lines_are_those_of_the_replica_that_failed_first",
    ],
    "status: the command that shows more": [
        "test_terminal_views::test_status_of_an_app_that_failed",
        "test_terminal_views::test_in_a_narrow_terminal_the_command_that_shows_more_fits",
    ],
    "status: str() of a status stays as the documents print it": [
        "../specs/test_status_text::test_format_is_the_documents"
    ],
    "list: --state --since --name --session --limit": ["test_terminal_views::test_a_list_can_be_narrowed_down"],
    "list: 30 by default, which is told; replicas, duration, reason, colour": [
        "test_terminal_views::test_a_list_has_what_people_look_for_and_says_that_there_are_more"
    ],
    "list: in a narrow terminal the common prefix goes first": [
        "test_terminal_views::test_in_a_narrow_terminal_what_all_handles_begin_with_goes_first",
        "test_terminal_views::test_in_a_narrow_terminal_reasons_are_told_in_full",
        "test_terminal_views::test_in_a_narrow_terminal_names_are_told_before_counts_of_one",
    ],
    "list: how many failed, and the command that shows when, why, and their last lines": [
        "test_terminal_views::test_a_list_says_how_many_failed_and_what_tells_more_of_them"
    ],
    "list -o json is one array of apps; failures go to stderr": [
        "test_terminal_views::test_a_list_as_json_tells_what_its_table_does",
        "test_terminal_views::test_what_could_not_be_asked_is_no_row_of_a_list",
    ],
    "log: prefixes are short while names are distinct, and aligned": [
        "test_terminal_views::test_prefixes_are_short_while_names_are_distinct",
        "test_terminal_views::test_prefixes_are_aligned_and_ends_are_told_where_several_are_followed",
    ],
    "log: colours that are readable on black and white": [
        "test_terminal::test_replicas_have_colours_unless_somebody_says_no",
        "test_log_printer::test_colours_can_be_read_on_black_and_on_white",
    ],
    "log: stderr can be told apart; ends are told where several are followed": [
        "test_terminal_views::test_prefixes_are_aligned_and_ends_are_told_where_several_are_followed"
    ],
    "log: --timestamps in local time": ["test_terminal_views::test_times_of_a_line_are_local"],
    "progress bars of several replicas are a footer with the latest of each": [
        "test_terminal_views::test_progress_bars_of_several_replicas_are_one_line_each"
    ],
    "with a prefix, or several replicas, only colours pass": [
        "test_terminal_safety::test_of_a_replicas_output_only_colours_pass"
    ],
    "one unprefixed replica may move the cursor and erase within its lines; titles, clipboard and the like never": [
        "test_terminal_safety::test_one_replica_without_a_prefix_may_move_in_its_own_lines",
        "test_terminal_safety::test_the_same_of_one_replica_that_is_chosen",
    ],
    "--raw passes all": ["test_terminal_safety::test_raw_output_is_passed_on"],
    "a pipe gets bytes as they are": ["test_terminal_safety::test_a_pipe_gets_what_replicas_write_as_it_is"],
    "our own words, names included, never carry a control sequence": [
        "test_terminal_safety::test_names_and_messages_are_shown_and_not_obeyed",
        "test_terminal_safety::test_what_is_asked_and_how_it_gets_on_is_not_obeyed_either",
    ],
    "cancel tells what had ended already": ["test_ends::test_cancel_tells_what_had_ended_already"],
    "cancel asks above one match on a terminal": [
        "test_ends::test_cancel_asks_above_one",
        "test_ends::test_anything_else_is_a_no",
    ],
    "cancel -y": ["test_ends::test_nothing_is_asked_of_who_has_said_so_or_names_one"],
    "cancel --wait": ["test_ends::test_cancel_may_wait_for_the_ends"],
    "a run's end counts, and FAILED is red": ["test_ends::test_the_end_of_a_run_counts_and_is_red"],
    "wait shows progress": [
        "test_ends::test_wait_shows_how_it_gets_on",
        "test_ends::test_wait_for_one_shows_its_state",
    ],
    "Ctrl-C in wait and log -f says what runs on": [
        "test_ends::test_wait_shows_how_it_gets_on",
        "test_ends::test_ctrl_c_in_a_followed_log_says_what_runs_on",
    ],
    "run --pass-exit-code": ["test_ends::test_a_run_may_end_with_the_exit_code_of_its_program"],
    "completion in bash, zsh and fish: components and their options, schedulers, run options, files": [
        "test_completion::test_in_a_shell"
    ],
    "completion of app ids, with state and age": ["test_completion::test_apps_are_listed_with_their_state_and_age"],
    "synonyms name the right verb": ["test_mistakes::test_what_other_programs_call_it_names_the_verb"],
    "bare asyncsched shows three examples": ["test_mistakes::test_nothing_at_all_shows_three_examples"],
    "run train.py, run --replicas 2 echo hi, run ./nofile.py: what, why, fix": [
        "test_mistakes::test_a_program_where_a_component_is_named"
    ],
    "a removed working directory: what, why, fix": ["test_mistakes::test_a_working_directory_that_was_removed"],
    "without a screen, a monitor prints a line for each change, and a hint": [
        "test_terminal_views::test_changes_are_lines_and_then_what_they_came_to"
    ],
    "the screen of sixty jobs tells how many failed, which, since when, why, and their last lines": [
        "test_terminal_views::test_the_screen_of_sixty_jobs_answers_what_people_ask"
    ],
    "why an app failed is worded alike by every verb": [
        "test_terminal_views::test_every_verb_says_in_the_same_words_why_an_app_failed"
    ],
}

NOT_AT_A_TERMINAL = {
    "../specs/test_status_text::test_format_is_the_documents": "it is about a text in a program",
    "test_library_words::test_no_text_of_the_library_names_a_flag": "it reads all texts of the library",
    "test_log_printer::test_colours_can_be_read_on_black_and_on_white": "it computes contrasts",
    "test_terminal_safety::test_a_pipe_gets_what_replicas_write_as_it_is": "it is about pipes",
    "test_terminal_views::test_what_could_not_be_asked_is_no_row_of_a_list": "a terminal does not tell stderr apart",
    "test_terminal_views::test_a_list_as_json_tells_what_its_table_does": "JSON is for pipes",
    "test_terminal_views::test_changes_are_lines_and_then_what_they_came_to": "it is what is no terminal",
}


@cache
def _functions(module: str) -> dict[str, ast.FunctionDef]:
    tree = ast.parse((HERE / f"{module}.py").read_text())
    return {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}


def _names(module: str, function: str, seen: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names that a function uses, itself or through its fixtures and helpers."""
    if function in seen or function not in _functions(module):
        return
    node = _functions(module)[function]
    used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
    for name in used | {arg.arg for arg in node.args.args}:
        yield name
        yield from _names(module, name, seen | {function})


@pytest.mark.parametrize("sentence", SENTENCES)
def test_each_sentence_is_held_at_a_terminal(sentence: str) -> None:
    assert SENTENCES[sentence]
    for test in SENTENCES[sentence]:
        module, _, function = test.partition("::")

        assert function in _functions(module), f"{test} is not there"
        assert ("Terminal" in _names(module, function)) == (test not in NOT_AT_A_TERMINAL), test


def test_what_is_excused_is_in_the_table() -> None:
    assert NOT_AT_A_TERMINAL.keys() <= {test for tests in SENTENCES.values() for test in tests}
