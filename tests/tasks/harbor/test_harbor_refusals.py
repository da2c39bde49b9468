"""What is no Harbor task, what is not supported, and what this machine lacks: one line each, before any episode."""

import os
from pathlib import Path

import pytest
from fakes.command import lab as command
from harbor_shapes import write_task

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import SuiteConfig
from hermes_lab.config.sources import load_config
from hermes_lab.envs.trl import prompt_rows
from hermes_lab.errors import ConfigError
from hermes_lab.tasks import load_suite
from hermes_lab.tasks.adapters.harbor.machine import IMAGE_PYTHON
from hermes_lab.tasks.adapters.harbor.suite import HarborSuite

CONFIG = SandboxConfig()


def _refusal(folder: Path, **options: object) -> str:
    with pytest.raises(ConfigError) as caught:
        load_suite(SuiteConfig(path=str(folder), options=options)).load(split="train", count=0, seed=0, world=0)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_a_path_without_tasks(tmp_path: Path) -> None:
    assert "No such file" in _refusal(tmp_path / "nowhere")
    assert "no task folder in it has a task.toml" in _refusal(tmp_path)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("task.toml", b"a = 1\nb = = 2\n"), "t/task.toml:2: not TOML: invalid value"),
        (("task.toml", b'a = "\xff"\n'), "t/task.toml: not UTF-8 (byte 5)"),
        (("task.toml", b"environment = 3\n"), "t/task.toml: environment: must be a table"),
        (("task.toml", b"[agent]\ntimeout_sec = 'x'\n"), "agent.timeout_sec: must be a number above 0, not 'x'"),
        (
            ("task.toml", b"[environment]\nmemory = 'much'\n"),
            "environment.memory: must be a size such as '2G', not 'much'",
        ),
        (("task.toml", b"[task]\nname = 'a/b|c'\n"), "task.name: 'b|c' contains"),
        (("task.toml", b"[[steps]]\nname = 'x/y'\n"), "steps.name: must be a unique folder name in steps/, not 'x/y'"),
        (("task.toml", b"[[steps]]\nname = 'one'\n"), "t/steps/one/instruction.md: no such file"),
        (
            ("task.toml", b"[environment]\nmemory = '1.2.3G'\n"),
            "environment.memory: must be a size such as '2G', not '1.2.3G'",
        ),
        (
            ("task.toml", b"[environment.env]\n'A B; touch /x' = '1'\n"),
            "environment.env: 'A B; touch /x' is not a valid variable name",
        ),
        (
            ("task.toml", b'[environment.env]\nA = "a\\u0000b"\n'),
            "environment.env: 'A' is not a valid variable name, or its",
        ),
        (("task.toml", b"multi_step_reward_strategy = 'Final'\n"), "multi_step_reward_strategy: 'Final' is not one of"),
        (("instruction.md", b" \n"), "t/instruction.md: is empty"),
        (
            ("environment/Dockerfile", b"FROM debian\nWORKDIR /app\nCOPY src/**.py /app/\n"),
            "t: cannot be read: Invalid",
        ),
        (("instruction.md", None), "t/instruction.md: no such file or directory"),
        (("instruction.md", b"\xe9"), "t/instruction.md: not UTF-8 (byte 0)"),
        (("tests/test.sh", None), "t/tests/test.sh: no such file"),
        (("environment/Dockerfile", b"FROM \xff"), "t/environment/Dockerfile: not UTF-8"),
    ],
)
def test_a_broken_task(tmp_path: Path, change: tuple[str, bytes | None], said: str) -> None:
    name, content = change
    path = write_task(tmp_path / "t") / name
    path.unlink() if content is None else path.write_bytes(content)
    assert said in _refusal(tmp_path)
    assert said in _refusal(tmp_path, skip_unsupported=True)


@pytest.mark.parametrize("least", ['"high"', "[1]", "nan", "inf", "true", '{reward = "x"}'])
def test_a_least_reward_that_is_no_number(tmp_path: Path, least: str) -> None:
    files = {"steps/one/instruction.md": "Write."}
    write_task(tmp_path / "t", toml=f'[[steps]]\nname = "one"\nmin_reward = {least}\n', files=files)
    assert "task.toml: steps.one.min_reward: " in _refusal(tmp_path)


def test_what_is_no_file_and_names_that_are_not_text(tmp_path: Path) -> None:
    os.mkfifo(write_task(tmp_path / "pipe") / "tests/pipe")
    assert "tests/pipe: is neither a file nor a folder nor a link" in _refusal(tmp_path)
    (tmp_path / "pipe/tests/pipe").unlink()
    Path(os.fsdecode(os.fsencode(tmp_path / "pipe/tests") + b"/\xff")).write_text("")
    assert "tests/\\udcff: its name is not UTF-8" in _refusal(tmp_path)


def test_a_link_that_leads_to_itself(tmp_path: Path) -> None:
    (write_task(tmp_path / "t") / "loop").symlink_to("loop")
    assert f"{tmp_path}/t: cannot be read: " in _refusal(tmp_path)


def test_a_working_directory_with_a_blank(tmp_path: Path) -> None:
    write_task(tmp_path / "t", dockerfile="FROM debian\nWORKDIR /my app\n")
    (task,) = load_suite(SuiteConfig(path=str(tmp_path))).load(split="train", count=0, seed=0, world=0)
    assert task.root is not None
    assert task.root.workdir == "/my app"


def test_two_tasks_of_one_name(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_task(tmp_path / folder, toml='[task]\nname = "org/same"\n')
    assert f"{tmp_path}/b/task.toml: task.name: 'same' is also {tmp_path}/a" in _refusal(tmp_path)


@pytest.mark.parametrize("where", ["environment/data", "tests/key", "solution/all"])
def test_a_link_that_leads_out(tmp_path: Path, where: str) -> None:
    os.symlink("/etc/passwd", write_task(tmp_path / "t") / where)  # noqa: PTH211
    assert f"{where}: a link that leads out of the task's folder" in _refusal(tmp_path)


@pytest.mark.parametrize(
    ("toml", "said"),
    [
        ("[environment]\ngpus = 1\n", "environment.gpus: GPUs"),
        ("[environment]\nos = 'windows'\n", "environment.os: only linux"),
        ("[[environment.mcp_servers]]\nname = 'a'\n", "environment.mcp_servers: MCP"),
        ("[environment.healthcheck]\ncommand = 'true'\n", "environment.healthcheck: healthchecks"),
        ("[environment.tpu]\ntype = 'v4'\n", "environment.tpu: TPUs"),
        ("[environment]\nnetwork_mode = 'allowlist'\n", "environment.allowed_hosts: network allow lists"),
        ("[agent]\nallowed_hosts = ['a.b']\n", "agent.allowed_hosts: network allow lists"),
        ("[verifier]\nenvironment_mode = 'separate'\n", "verifier.environment_mode: a separate environment"),
        ("[verifier.environment]\ncpus = 1\n", "verifier.environment: a separate environment"),
        ("[[verifier.collect]]\ncommand = 'x'\n", "verifier.collect: collect hooks"),
        ("[agent]\nuser = 'agent'\n", "agent.user: only root"),
        ("[environment.env]\nKEY = '${SECRET}'\n", "environment.env: reads the variable SECRET"),
        (
            "[environment]\ndocker_image = 'a/b:1'\nworkdir = '/app'\n",
            "environment.docker_image: needs the image a/b:1",
        ),
    ],
)
def test_what_a_configuration_asks_for(tmp_path: Path, toml: str, said: str) -> None:
    write_task(tmp_path / "t", toml=toml)
    refusal = _refusal(tmp_path)
    assert refusal.startswith(f"{tmp_path}: t: task.toml: {said}")
    assert refusal.endswith("to leave unsupported tasks out, set suite.options={skip_unsupported: true}")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("FROM node:22\nWORKDIR /app", "1: FROM node:22: needs an image"),
        ("FROM python:3.99\nWORKDIR /app", "1: FROM python:3.99: the sandboxes' Python is 3."),
        ("FROM debian AS a\nFROM debian\nWORKDIR /app", "2: a second FROM"),
        ("FROM debian\nWORKDIR /app\nUSER agent", "3: USER agent: only root"),
        ("FROM debian\nWORKDIR /app\nRUN useradd agent", "3: RUN useradd: there is no user but root"),
        ("FROM debian\nWORKDIR /app\nRUN true && \\\n chown -R a:b /app", "3: RUN chown a:b: there is no user"),
        ("FROM debian\nWORKDIR /app\nRUN curl http://a.b/c > d", "3: RUN curl: needs the network"),
        ("FROM debian\nWORKDIR /app\nRUN npm install -g x", "3: RUN npm: needs the network"),
        ("FROM debian\nWORKDIR /app\nRUN git clone https://a/b", "3: RUN git clone: needs the network"),
        ("FROM debian\nWORKDIR /app\nRUN service nginx start", "3: RUN service: nothing is started"),
        (
            "FROM debian\nWORKDIR /app\nRUN apt-get update; apt install -y no-such-tool",
            "3: RUN apt-get install no-such",
        ),
        ("FROM debian\nWORKDIR /app\nRUN pip install -q no-such-pkg==1", "3: RUN pip install no-such-pkg==1: the sand"),
        ("FROM debian\nWORKDIR /app\nRUN pip install -r reqs.txt", "3: RUN pip install -r reqs.txt: no such file"),
        ("FROM debian\nWORKDIR /app\nCOPY nothing .", "3: COPY nothing: no such file in environment/"),
        ("FROM debian\nWORKDIR /app\nCOPY --from=x a b", "3: COPY --from=x is not supported"),
        ("FROM debian\nWORKDIR /app\nADD https://a/b c", "3: ADD https://a/b: needs the network"),
        ('FROM debian\nWORKDIR /app\nENTRYPOINT ["/start"]', "3: ENTRYPOINT"),
        ("FROM debian\nWORKDIR /app\nHEALTHCHECK CMD true", "3: HEALTHCHECK"),
        ("FROM debian\nWORKDIR /app\nONBUILD RUN x", "3: ONBUILD is not supported"),
        ("FROM debian\nRUN true", " WORKDIR: the working directory must be given, and not be /"),
    ],
)
def test_what_a_dockerfile_asks_for(tmp_path: Path, lines: str, said: str) -> None:
    write_task(tmp_path / "t", dockerfile=f"{lines}\n")
    assert f"{tmp_path}: t: environment/Dockerfile:{said}" in _refusal(tmp_path)


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ("uvx -w pytest==8.4.1 -w no-such-plugin pytest", "tests/test.sh: the sandboxes' Python has no no-such-plugin"),
        ("true\ngit clone https://a.b/c", "tests/test.sh:3: git: needs the network"),
        ("apt-get install -y no-such-tool", "tests/test.sh:2: apt-get install no-such-tool: this machine has no"),
    ],
)
def test_what_a_test_script_asks_for(tmp_path: Path, test: str, said: str) -> None:
    write_task(tmp_path / "t", test=test)
    assert said in _refusal(tmp_path)


def test_other_files_that_are_not_supported(tmp_path: Path) -> None:
    for name in ("environment/docker-compose.yaml", "environment/.dockerignore", "trajectory.json"):
        path = write_task(tmp_path / name.replace("/", "-")) / name
        path.write_text("")
    found = HarborSuite(tmp_path, CONFIG).problems()
    assert [line.partition(": ")[2].partition(": ")[2] for line in found] == [
        "environment/.dockerignore: is not supported",
        "environment/docker-compose.yaml: services: compose services are not supported",
        "trajectory.json: an earlier conversation is not supported",
    ]


def test_unsupported_tasks_are_left_out_only_when_asked_and_then_counted(tmp_path: Path) -> None:
    write_task(tmp_path / "good")
    for name in ("bad", "worse"):
        write_task(tmp_path / name, toml="[environment]\ngpus = 1\n")
    assert "(and 1 more task of 3; `hermes-lab tasks check" in _refusal(tmp_path)
    suite = HarborSuite(tmp_path, CONFIG, skip_unsupported=True)
    assert [task.id for task in suite.load(split="train", count=0, seed=0, world=0)] == ["good"]
    assert suite.left_out.keys() == {"bad", "worse"}
    assert f"left out as unsupported: 2 of 3 tasks of {tmp_path}" in suite.remarks()
    (tmp_path / "good/environment/docker-compose.yaml").touch()
    assert "none of its 3 tasks can run here" in _refusal(tmp_path, skip_unsupported=True)


def test_unknown_options_and_counts(tmp_path: Path) -> None:
    write_task(tmp_path / "t")
    assert "no option 'skip_unsuported'; did you mean skip_unsupported?" in _refusal(tmp_path, skip_unsuported=True)
    assert "no Python environment" in _refusal(tmp_path, python=str(tmp_path))
    with pytest.raises(ConfigError, match=r"2 tasks requested, but .* has 1"):
        HarborSuite(tmp_path, CONFIG).load(split="train", count=2, seed=0, world=0)
    with pytest.raises(ConfigError, match="only have 'train', not 'heldout'"):
        HarborSuite(tmp_path, CONFIG).load(split="heldout", count=1, seed=0, world=0)


def test_a_container_needs_an_image_and_nothing_else(tmp_path: Path) -> None:
    docker = SandboxConfig(backend="docker")
    write_task(
        tmp_path / "image", dockerfile="FROM node:22", toml="[environment]\ndocker_image = 'i'\nworkdir = '/w'\n"
    )
    write_task(tmp_path / "none")
    suite = HarborSuite(tmp_path, docker, skip_unsupported=True)
    assert suite.python is IMAGE_PYTHON
    (task,) = suite.load(split="train", count=0, seed=0, world=0)
    assert task.root is not None
    assert (task.root.image, task.root.workdir, task.root.mounts) == ("i", "/w", ())
    assert "no image is built here: docker build" in suite.left_out["none"]


def test_rows_for_trl_are_of_tasks_for_the_configured_sandbox(tmp_path: Path) -> None:
    write_task(
        tmp_path / "image", dockerfile="FROM node:22", toml="[environment]\ndocker_image = 'i'\nworkdir = '/w'\n"
    )
    (row,) = prompt_rows(load_config([f"suite.path={tmp_path}", "sandbox.backend=docker", "suite.count=0"]))
    assert row["prompt"][0]["task_id"] == "image"


def test_a_task_becomes_the_labs(tmp_path: Path) -> None:
    toml = (
        "[metadata]\ndifficulty = 'hard'\ncategory = 'games'\ntags = ['a', 'b']\nauthor_name = 'x'\n"
        "[agent]\ntimeout_sec = 90\n"
        "[environment]\ncpus = 2\nmemory_mb = 512\nstorage_mb = 5000\nallow_internet = true\n"
    )
    write_task(tmp_path / "t", toml=toml, instruction="<!-- canary GUID 1 -->\n# canary\n\nDo it.\n")
    suite = HarborSuite(tmp_path, CONFIG)
    (task,) = suite.load(split="train", count=0, seed=0, world=0)
    assert (task.id, task.suite, task.prompt, task.domain) == ("t", tmp_path.name, "Do it.\n", "games")
    assert task.metadata == {"difficulty": "hard", "category": "games", "tags": ["a", "b"]}
    assert task.root is not None
    assert (task.root.memory_mb, task.root.disk_mb, task.root.seconds, task.root.workdir) == (512, 5000, 90.0, "/app")
    assert list(task.truth["files"]) == ["environment/Dockerfile", "instruction.md", "task.toml", "tests/test.sh"]
    assert suite.remarks() == [
        "1 of 1 tasks (t) ask for more disk space than sandbox.disk_mb=1024, up to 5000",
        "environment.cpus of 1 of 1 tasks (t) is not enforced: all sandboxes share this machine's processors",
        "1 of 1 tasks (t) ask for the internet; the sandboxes have no network",
    ]


def test_remarks_name_the_first_tasks(tmp_path: Path) -> None:
    for number in range(5):
        write_task(tmp_path / f"t{number}", toml="[environment]\ncpus = 2\n" * (number > 0))
    assert HarborSuite(tmp_path, CONFIG).remarks() == [
        "environment.cpus of 4 of 5 tasks (t1, t2, t3 and 1 more) is not enforced: all sandboxes share this machine's "
        "processors"
    ]


def test_a_task_without_a_category_is_of_the_domain_harbor(tmp_path: Path) -> None:
    write_task(tmp_path / "t")
    (task,) = HarborSuite(tmp_path, CONFIG).load(split="train", count=0, seed=0, world=0)
    assert task.domain == "harbor"


def test_show_tells_what_the_task_folder_holds(tmp_path: Path) -> None:
    write_task(
        tmp_path / "all" / "sum",
        dockerfile="FROM python:3.11-slim\nWORKDIR /app\nCOPY data /app/data\nRUN touch /app/ready\n",
        toml="[agent]\ntimeout_sec = 90\n[environment]\ncpus = 2\nmemory_mb = 512\n",
        files={"environment/data/a.csv": "1", "environment/data/b/c.csv": "2", "tests/test_sum.py": ""},
    )
    write_task(tmp_path / "one", solution="")
    said = command("tasks", "show", str(tmp_path / "all")).stdout
    assert said.startswith("sum  harbor\n\n> Write the word right")
    for part in (
        "System: FROM python:3.11-slim, working directory /app\n"
        "- environment/data/a.csv, environment/data/b/c.csv -> /app/data\n- RUN touch /app/ready\n",
        "Tests\n- tests/test.sh\n- tests/test_sum.py\n",
        "- 90 s for the agent, 600 s for its verification\n- 512 MB of memory\n- 2 processors (not enforced)\n",
        "Solution: solution/solve.sh\n",
    ):
        assert part in said
    assert "Solution: none\n" in command("tasks", "show", str(tmp_path / "one")).stdout
    played = command("tasks", "show", str(tmp_path / "one"), "--play")
    assert played.returncode == 2
    assert f"has no oracle policy; hermes-lab tasks check {tmp_path / 'one'} runs its solutions" in played.stderr


def test_one_task_folder_and_the_order_of_a_seed(tmp_path: Path) -> None:
    for number in range(9):
        write_task(tmp_path / f"t{number}")
    suite = HarborSuite(tmp_path, CONFIG)
    names = [task.id for task in suite.load(split="train", count=0, seed=0, world=0)]
    assert names == [f"t{number}" for number in range(9)]
    drawn = [task.id for task in suite.load(split="train", count=0, seed=3, world=0)]
    assert sorted(drawn) == names != drawn
    assert [task.id for task in HarborSuite(tmp_path / "t4", CONFIG).load(split="train", count=0, seed=0, world=0)] == [
        "t4"
    ]


def test_a_relative_folder_is_found_from_any_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_task(tmp_path / "all" / "good")
    monkeypatch.chdir(tmp_path)
    suite = HarborSuite(Path("all"), CONFIG)
    monkeypatch.chdir("/")
    task = suite.task_folder("good")
    assert task.folder == tmp_path / "all" / "good"
    assert task.digests()
    assert all(path.is_dir() for step in task.steps for path in step.tests)
