"""A key that stands twice in a YAML file is refused with both lines, whatever file it is and however the key is
spelled."""

from collections.abc import Callable
from pathlib import Path

import pytest

from hermes_lab.config.files import read_file
from hermes_lab.config.home_file import load_home_config
from hermes_lab.config.sources import load_config
from hermes_lab.envs.atropos.config import load_env_config
from hermes_lab.errors import ConfigError
from hermes_lab.runners.experiments.study import read_study
from hermes_lab.skills.frontmatter import lenient
from hermes_lab.tasks.words import read_words
from hermes_lab.training.config import load_train_config
from hermes_lab.training.grpo_config import load_grpo_config
from hermes_lab.training.lock import load_lock, write_lock

LOCK = Path("configs/locks/sft-cpu.yaml")
READERS: dict[str, Callable[[Path], object]] = {
    "run": lambda path: load_config([str(path)]),
    "home": lambda path: load_home_config(path.parent, []),
    "study": lambda path: read_study(path, [], {}),
    "environment": lambda path: load_env_config([str(path)]),
    "sft": lambda path: load_train_config([str(path)]),
    "grpo": lambda path: load_grpo_config([str(path)]),
    "lock": load_lock,
    "source of a lock": lambda path: write_lock(path, path.with_name("out.yaml")),
}


@pytest.mark.parametrize("reader", READERS)
def test_every_file_of_a_person_is_read_with_this_check(tmp_path: Path, reader: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("model:\n  name: a\nlearning:\n  arms: [off]\nmodel:\n  name: b\n")
    with pytest.raises(ConfigError) as error:
        READERS[reader](path)
    assert str(error.value) == f"{path}:5: model: is set twice, first in line 1; keep one of the two"


@pytest.mark.parametrize(
    "second",
    ["learning_rate: 0.9", "'learning_rate': 0.9", '"learning_rate" : 0.9', "!!str learning_rate: 0.9",
     '"\\x6cearning_rate": 0.9', "? learning_rate\n: 0.9", "&a learning_rate: 0.9"],
)  # fmt: skip
def test_a_lock_holds_a_field_once_however_it_is_spelled(tmp_path: Path, second: str) -> None:
    lines = LOCK.read_text().splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("learning_rate"))
    for place in (0, len(lines)):
        path = tmp_path / "lock.yaml"
        path.write_text("\n".join([*lines[:place], second, *lines[place:], ""]))
        first = at + 1 if place else 1
        with pytest.raises(ConfigError, match=rf"learning_rate: is set twice, first in line {first};"):
            load_lock(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: {x: 1}\n<<: {y: 1}\n<<: {y: 2}\n", ":3: <<: is set twice, first in line 2"),
        ("a:\n  b:\n    c: 1\n    d: 2\n    c: 3\n", ":5: a.b.c: is set twice, first in line 3"),
        ("a: [{b: 1, b: 2}]\n", ":1: a.0.b: is set twice, first in line 1"),
        ("# a note\u2028a: 2\nb: 1\n", ":1: contains U+2028, which YAML reads as the end of a line"),
        ("# a note\u0085a: 2\n", ":1: contains U+0085"),
        ("a: 1\n---\na: 2\n", ":2: expected a single document"),
    ],
)
def test_no_value_is_lost_or_hidden(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_file(path)
    assert str(error.value).startswith(f"{path}{problem}")


def test_a_key_beside_a_merged_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("x: &x {a: one, b: two}\ny:\n  <<: *x\n  a: three\n")
    assert read_file(path).content["y"] == {"a": "three", "b": "two"}


def test_the_words_of_a_family_hold_a_key_once(tmp_path: Path) -> None:
    (tmp_path / "words.yaml").write_text("rules:\n  a: x\n  b: y\n  a: z\n")
    with pytest.raises(ValueError, match=r"words.yaml:4: a is set twice, first in line 2; keep one of the two"):
        read_words(str(tmp_path / "family.py"))
    (tmp_path / "empty.yaml").write_text("")
    assert read_words(str(tmp_path / "family.py"), "empty") is None


def test_a_published_skill_is_read_with_a_note() -> None:
    head = lenient("name: a\ndescription: x\nmetadata:\n  k: 1\n  k: 2\n", 4)
    assert head.fields["metadata"] == {"k": 2}
    assert [str(note) for note in head.notes] == ["line 8: k: is set twice, first in line 7; the last one counts"]
    assert not lenient("name: a\ndescription: x\n").notes
