"""What is read from Dockerfiles and shell commands, without a sandbox."""

import pytest

from hermes_lab.tasks.adapters.harbor.dockerfile import Copy, Refused, Run, normal, read_dockerfile
from hermes_lab.tasks.adapters.harbor.machine import Python, pip_installs, without_installs
from hermes_lab.tasks.adapters.harbor.shell import parts
from hermes_lab.tasks.adapters.harbor.verifier import Report, judge

PYTHON = Python("python3", (), (), (3, 11), {"pandas": "3.0", "pyyaml": "6"})


def test_variables_lines_and_places() -> None:
    image = read_dockerfile(
        'ARG V=3.11\nFROM python:${V}-slim\nENV A=1 \\\n# not this\n B="two words"\nWORKDIR /x\nWORKDIR y/../z\n'
        "ENV PATH=$A/bin:$PATH C=${NONE:-$A} D=${A:+set} E='$A' F=\\$A\nCOPY a b ./to/\nCOPY a /c\nRUN echo $A\n"
    )
    assert (image.base, image.base_line, image.workdir) == ("python:3.11-slim", 2, "/x/z")
    assert image.environment["PATH"] == "1/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    assert [image.environment[name] for name in "BCDEF"] == ["two words", "1", "set", "$A", "$A"]
    copies = [step for step in image.steps if isinstance(step, Copy)]
    assert [(step.sources, step.target, step.into) for step in copies] == [
        (("a", "b"), "/x/z/to", True),
        (("a",), "/c", False),
    ]
    (run,) = [step for step in image.steps if isinstance(step, Run)]
    assert (run.line, run.command, run.workdir, run.environment["A"]) == (11, "echo $A", "/x/z", "1")


@pytest.mark.parametrize("text", ["", "RUN x", "FROM a\n?? b", "FROM a\nRUN --network=none x", "FROM a\nENV 'x"])
def test_what_is_no_dockerfile(text: str) -> None:
    with pytest.raises(Refused):
        read_dockerfile(text)


def test_normal_paths() -> None:
    assert [normal(path) for path in ("/a//b/./c/..", "..", "/", "a")] == ["/a/b", "/", "/", "/a"]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ("a && b || c; d | e & f", ["a", "b", "c", "d", "e", "f"]),
        ("A=1 sudo x 'y && z' 2>&1 >f; (cd d && g)", ["x y && z", "cd d", "g"]),
        ('echo "a; $(b && c) \\" ; d" ; `e;f`', ['echo a; $(b && c) " ; d', "`e;f`"]),
        ("if x; then y; fi # z; w", ["x", "y", "fi"]),
    ],
)
def test_parts_of_a_command(command: str, found: list[str]) -> None:
    assert [" ".join(part.words) for part in parts(command)] == found


def test_what_is_here_is_not_installed_again() -> None:
    command = "apt-get update && apt-get install -y bash && pip3 install -q 'pandas==2.3' PyYAML[x]>=5 && mkdir -p /a"
    assert without_installs(command, PYTHON, {}) == (" true &&  true &&  true && mkdir -p /a", [])
    texts = {"requirements.txt": "pandas\n# no\nno-such>=1 ; python_version > '3'\n-r other\n"}
    kept, problems = without_installs("python3 -m pip install -r /app/requirements.txt; a", PYTHON, texts)
    assert (kept.split(";")[1], problems) == (" a", ["pip install no-such>=1: the sandboxes' Python has no no-such>=1"])
    assert without_installs("pip install git+https://a/b", PYTHON, {})[1] != []


def test_what_pip_installs() -> None:
    found = pip_installs(("uv", "pip", "install", "--system", "-i", "URL", "a", "-r", "r.txt", "--no-deps", "b==1"))
    assert found is not None
    assert (found.requirements, found.files) == (["a", "b==1"], ["r.txt"])
    assert pip_installs(("pip", "list")) == ([], [])
    assert pip_installs(("make", "install")) is None


@pytest.mark.parametrize(
    ("json", "score", "criteria"),
    [
        ('{"reward": 0.5, "a": 1, "b": 3}', 0.5, {"a": 1.0}),
        ('{"a": 1, "b": 0}', 0.5, {"a": 1.0, "b": 0.0}),
        ("1", 1.0, {}),
        ('{"reward": true}', 1.0, {}),
    ],
)
def test_rewards(json: str, score: float, criteria: dict[str, float]) -> None:
    verdict = judge(Report(0, {"json": json, "reward": "0.25"}), "", "t")
    assert (verdict.score, verdict.success, verdict.criteria) == (score, score == 1.0, criteria)
