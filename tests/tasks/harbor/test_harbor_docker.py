"""A Harbor task with an image of its own, in a real container."""

import sys
from functools import partial
from pathlib import Path

import anyio
from harbor_shapes import by_status, write_task

from hermes_lab.sandbox import open_sandbox
from hermes_lab.tasks.adapters.harbor.check import check_tasks
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite

sys.path.append(str(Path(__file__).parents[2] / "hermes_lab/sandbox"))
from docker_fixture import needed_config

_TEST = "import pathlib\ndef test_it():\n    assert pathlib.Path('answer.txt').read_text() == 'right\\n'\n"


def test_a_task_with_an_image_is_verified_with_the_labs_pytest(tmp_path: Path) -> None:
    config = needed_config()
    toml = f"[environment]\ndocker_image = '{config.image}'\nworkdir = '/srv/app'\n"
    for name, test in {"uvx": "uvx -w pytest==8.4.1 pytest", "plain": "python3 -m pytest"}.items():
        files = {"tests/test_it.py": _TEST}
        write_task(tmp_path / name, toml=toml, test=by_status(f"{test} /tests/test_it.py"), files=files)
    suite = HarborSuite(tmp_path, config)
    assert suite.problems() == []
    found = anyio.run(check_tasks, suite, partial(open_sandbox, config), suite.tasks())
    assert [(each.id, each.noop, each.oracle, each.failures) for each in found] == [
        ("plain", 0.0, 1.0, ()),
        ("uvx", 0.0, 1.0, ()),
    ]
