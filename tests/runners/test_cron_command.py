"""`hermes-lab cron`: jobs by command, those of config.yaml, and one line for every mistake."""

import json
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from fakes.command import lab

from hermes_lab.config.home_file import resolve_home
from hermes_lab.cron.jobs import Job, JobStore
from hermes_lab.cron.runs import Outcome, RunStore
from hermes_lab.cron.ticker import ON_TIME

DAILY = "0 9 * * *"


def cron(home: Path, *args: str | Path) -> subprocess.CompletedProcess[str]:
    return lab("cron", *args, HERMES_HOME=str(home))


def config(home: Path, text: str) -> None:
    (home / "config.yaml").write_text(text)


def state(home: Path, name: str) -> str:
    return JobStore(home).find(name).state


def test_a_job_is_added_shown_paused_resumed_and_removed(tmp_path: Path) -> None:
    added = cron(tmp_path, "add", "Daily News", DAILY, "Summarise.", "--zone", "Europe/Berlin", "--deliver", "telegram")
    assert added.returncode == 0
    assert "added: Daily News; it runs next at " in added.stderr
    listed = cron(tmp_path, "list")
    assert "Daily News  active  0 9 * * *  Europe/Berlin" in listed.stdout
    assert "nothing runs these jobs now" in listed.stderr
    assert json.loads(cron(tmp_path, "show", "Daily News", "--json").stdout)["deliver"] == "telegram"
    assert "deliver: telegram" in cron(tmp_path, "show", "Daily News").stdout
    cron(tmp_path, "pause", "Daily News")
    assert state(tmp_path, "Daily News") == "paused"
    cron(tmp_path, "resume", "Daily News")
    assert state(tmp_path, "Daily News") == "active"
    assert json.loads(cron(tmp_path, "remove", "Daily News", "--json").stdout)["removed"]["name"] == "Daily News"
    assert json.loads(cron(tmp_path, "list", "--json").stdout) == {"jobs": [], "ticker": ""}


def test_a_command_runs_now_in_the_folder_where_it_was_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    (work / "a.yaml").write_text("run: {seed: 7}\n")
    monkeypatch.chdir(work)
    cron(home, "add", "shown", DAILY, "--command", "hermes-lab config show -c a.yaml -c 'suite.path={date}; echo no'")
    monkeypatch.chdir(tmp_path)
    done = cron(home, "trigger", "shown")
    assert done.returncode == 0, done
    assert "seed: 7" in done.stdout
    (run,) = RunStore(home).latest()
    assert (run.state, run.exit, run.by_hand) == ("ok", 0, 1)
    assert "; echo no" in Path(run.output).read_text()
    assert "{date}" not in Path(run.output).read_text()
    assert "shown" in cron(home, "runs").stdout


def test_a_command_that_fails_has_its_exit_code_and_output(tmp_path: Path) -> None:
    cron(tmp_path, "add", "bad", DAILY, "--command", "show nosuch")
    done = cron(tmp_path, "trigger", "bad", "--json")
    assert done.returncode == 1
    told = json.loads(done.stdout)
    assert (told["state"], told["exit"]) == ("failed", 2)
    assert "nosuch" in Path(told["output"]).read_text()
    assert Path(told["output"]).stat().st_mode & 0o077 == 0


def test_tick_runs_what_is_due_and_ends(tmp_path: Path) -> None:
    assert cron(tmp_path, "add", "now", "every 1s", "--command", "config docs", "--repeat", "1").returncode == 0
    while not RunStore(tmp_path).latest():
        assert cron(tmp_path, "tick").returncode == 0
    (run,) = RunStore(tmp_path).latest()
    assert run.state == "ok"
    assert state(tmp_path, "now") == "done"


def test_jobs_of_the_file_follow_the_file(tmp_path: Path) -> None:
    config(
        tmp_path,
        "user: {timezone: Asia/Tokyo}\ncron:\n- name: news\n  schedule: 0 9 * * *\n  prompt: Summarise.\n"
        "  deliver: telegram\n- {name: night, schedule: '@daily', command: tools list}\n",
    )
    assert "news: added by config.yaml" in cron(tmp_path, "list").stderr
    job = JobStore(tmp_path).find("news")
    assert (job.source, job.definition.zone, job.definition.deliver) == ("file", "Asia/Tokyo", "telegram")
    cron(tmp_path, "pause", "news")
    assert "config.yaml" not in cron(tmp_path, "list").stderr  # nothing has changed
    assert state(tmp_path, "news") == "paused"
    config(tmp_path, "cron:\n- {name: news, schedule: '@hourly', prompt: Summarise., zone: UTC}\n")
    told = cron(tmp_path, "list").stderr
    assert "news: changed by config.yaml" in told
    assert "night: removed from config.yaml, and here" in told
    (job,) = JobStore(tmp_path).all()
    assert (job.definition.schedule, job.state) == ("@hourly", "paused")


def test_a_job_of_the_file_keeps_the_zone_of_the_machine(tmp_path: Path) -> None:
    config(tmp_path, "cron:\n- {name: news, schedule: 0 9 * * *, prompt: Summarise.}\n")
    assert lab("cron", "list", HERMES_HOME=str(tmp_path), TZ="Asia/Tokyo").returncode == 0
    cron(tmp_path, "pause", "news")
    again = lab("cron", "list", HERMES_HOME=str(tmp_path), TZ="Europe/Berlin")
    assert "config.yaml" not in again.stderr  # nothing has changed
    job = JobStore(tmp_path).find("news")
    assert (job.definition.zone, job.state) == ("Asia/Tokyo", "paused")
    config(tmp_path, "user: {timezone: UTC}\ncron:\n- {name: news, schedule: 0 9 * * *, prompt: Summarise.}\n")
    assert "news: changed by config.yaml" in cron(tmp_path, "list").stderr
    assert JobStore(tmp_path).find("news").definition.zone == "UTC"


def merged(home: Path, schedule: str, prompt: str, repeat: int, now: datetime) -> Job:
    line = f"{{name: a, schedule: {schedule}, zone: UTC, prompt: {prompt}, repeat: {repeat}}}"
    config(home, f"cron:\n- {line}\n")
    store = JobStore(home)
    store.merge(resolve_home(home / "config.yaml", ()), now)
    return store.find("a")


def test_an_edited_job_of_the_file_goes_on(tmp_path: Path) -> None:
    begin = datetime(2027, 1, 1, 0, 0, 30, tzinfo=UTC)
    job = merged(tmp_path, "every 3h", "one", 2, begin)
    runs, slot = RunStore(tmp_path), begin + timedelta(hours=3)
    (claim,) = runs.claim(slot, ON_TIME)
    runs.finish(claim, Outcome("ok"), slot, 1.0)
    later = slot + timedelta(hours=1)
    job = merged(tmp_path, "every 3h", "two", 2, later)
    assert (job.state, job.done, job.created, job.next) == ("active", 1, begin, begin + timedelta(hours=6))
    JobStore(tmp_path).pause("a")
    job = merged(tmp_path, "every 3h", "three", 2, later)
    assert (job.state, job.done, job.definition.prompt) == ("paused", 1, "three")
    job = merged(tmp_path, "every 5h", "three", 2, later)
    assert (job.state, job.done, job.created, job.next) == ("paused", 0, later, later + timedelta(hours=5))


def test_a_job_of_the_file_that_is_done_goes_on_if_it_may_run_more_often(tmp_path: Path) -> None:
    begin = datetime(2027, 1, 1, 0, 0, 30, tzinfo=UTC)
    merged(tmp_path, "every 3h", "one", 1, begin)
    slot = begin + timedelta(hours=3)
    assert len(RunStore(tmp_path).claim(slot, ON_TIME)) == 1
    later = slot + timedelta(hours=10)
    assert merged(tmp_path, "every 3h", "two", 1, later).state == "done"
    job = merged(tmp_path, "every 3h", "two", 2, later)
    assert (job.state, job.done, job.next) == ("active", 1, begin + timedelta(hours=15))


def test_jobs_of_the_file_are_changed_there_alone(tmp_path: Path) -> None:
    config(tmp_path, "cron:\n- {name: news, schedule: '@hourly', prompt: Summarise.}\n")
    refused = cron(tmp_path, "remove", "news")
    assert refused.stderr.splitlines()[-1].endswith(f"news is a job of {tmp_path}/config.yaml: remove it there")
    refused = cron(tmp_path, "add", "news", DAILY, "x")
    assert refused.stderr.splitlines()[-1].endswith("a job 'news' is defined in config.yaml; edit it there")
    config(tmp_path, "")
    cron(tmp_path, "add", "mine", DAILY, "x")
    config(tmp_path, "cron:\n- {name: mine, schedule: '@hourly', prompt: Summarise.}\n")
    refused = cron(tmp_path, "list")
    assert refused.returncode == 2
    assert "a job 'mine' was added by a command; remove it first, or choose another name" in refused.stderr


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("add", "a", "x", "y"), "schedule 'x': write five cron fields"),
        (("add", "a", "0 25 * * *", "y"), "wrong hour"),
        (("add", "a", "2020-01-01", "y"), "this time has passed"),
        (("add", "a", DAILY), "give either `prompt` or `command`"),
        (("add", "a", DAILY, "x", "--command", "doctor"), "give either `prompt` or `command`"),
        (("add", "a", DAILY, "--command", "tools 'list"), "cannot be split into words"),
        (("add", "a", DAILY, "--command", "tools list", "--model", "m"), "`model` is for a `prompt`"),
        (("add", "a", DAILY, "x", "--zone", "Europe/Berln"), "did you mean Europe/Berlin?"),
        (("add", "a", DAILY, "x", "--deliver", "Tele gram"), "deliver 'Tele gram': give local, origin"),
        (("add", "a", DAILY, "x", "--missed", "maybe"), "missed: must be 'skip' or 'once'"),
        (("add", "a", DAILY, "x", "--repeat", "0"), "repeat: must be greater than or equal to 1"),
        (("add", "a", DAILY, "x", "--retry", "-1"), "retry: must be greater"),
        (("add", "a", DAILY, "x", "--max-seconds", "0"), "max_seconds: must be greater than 0"),
        (("add", "a", DAILY, "x", "--toolset", "nosuch"), "no toolset 'nosuch'"),
        (("add", "a/b", DAILY, "x"), "cannot name a job"),
        (("add", " ", DAILY, "x"), "cannot name a job"),
        (("add", "known", DAILY, "x"), "a job 'known' was added by a command"),
        (("show", "knwn"), "no job 'knwn'; did you mean known?"),
        (("pause", "knwn"), "did you mean known?"),
        (("resume", "known"), "known is active, not paused"),
        (("approve", "known"), "known is active, not proposed"),
        (("remove", "other"), "no job 'other'; there are: known"),
        (("trigger", "other"), "no job 'other'"),
        (("runs", "other"), "no job 'other'"),
        (("run", "-c", "nosuch.yaml"), "nosuch.yaml"),
        (("tick", "-c", "modl.name=x"), "modl"),
    ],
)
def test_a_mistake_is_one_line(args: tuple[str, ...], said: str, tmp_path: Path) -> None:
    cron(tmp_path, "add", "known", DAILY, "x")
    refused = cron(tmp_path, *args)
    assert refused.returncode == 2
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    assert [job.name for job in JobStore(tmp_path).all()] == ["known"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "- {name: a, schedule: 0 25 * * *, prompt: x}",
            "config.yaml:2: cron.0 (a): schedule '0 25 * * *': wrong hour",
        ),
        ("- {name: a, schedule: '@daily'}", "config.yaml:2: cron.0: give either `prompt` or `command`"),
        ("- {name: a, schedule: '@daily', prompt: x, deliver: 'a b'}", "cron.0 (a): deliver 'a b'"),
        ("- {name: a, schedle: '@daily', prompt: x}", "cron.0.schedle"),
    ],
)
def test_a_mistake_in_the_file_is_told_with_its_job(text: str, said: str, tmp_path: Path) -> None:
    config(tmp_path, f"cron:\n{text}\n")
    refused = cron(tmp_path, "list")
    assert refused.returncode == 2
    assert said in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
