"""The contract of sandboxes, kept in containers of a test double of Modal: tests of every backend, on this one."""

import pytest
from backend_fixture import Backend
from test_beside import (  # noqa: F401
    test_a_fresh_command_stops_the_background_of_its_own_sandbox_alone,
    test_files_are_shared_and_directory_and_variables_are_not,
    test_they_run_at_the_same_time,
    test_what_the_first_was_provided_with_is_there_too,
)
from test_process import (  # noqa: F401
    test_a_command_that_does_not_exist_says_so,
    test_a_program_that_reads_no_more_stops_the_sender,
    test_a_sibling_has_programs_of_its_own,
    test_a_signal_is_told_as_by_a_shell,
    test_environment_and_folder_are_those_that_it_was_given,
    test_every_wait_can_be_cancelled,
    test_killing_it_kills_its_children,
    test_much_data_both_ways,
    test_stdin_can_be_closed_at_once_and_is_then_closed,
    test_the_end_of_the_sandbox_ends_them,
    test_the_last_output_is_there_after_the_end,
    test_the_three_streams_and_the_exit_status,
    test_what_is_left_in_a_pipe_at_the_end_is_not_lost,
)

from hermes_lab.config.sandboxes import SandboxConfig


@pytest.fixture
def backend(modal: SandboxConfig) -> Backend:
    return Backend("modal", modal)
