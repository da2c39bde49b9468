"""`tests/guards.py` as tests, each of which takes a minute or so. The tasks have one of their own."""

import guards
import pytest

pytestmark = pytest.mark.long


def test_a_model_sees_the_same_bytes() -> None:
    guards.check_prompts()


def test_an_old_run_folder_is_read_and_its_prompts_are_told_apart() -> None:
    guards.check_old_run()
