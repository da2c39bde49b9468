import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.sandbox import folders, launch, open_sandbox, spawn

HARNESS = """
    import sys, time
    from hermes_lab.sandbox import folders
    print(folders.open_folders(None).workspace, flush=True)
    sys.stdin.read()
"""


def _harness(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    command = [sys.executable, "-c", textwrap.dedent(HARNESS)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | {"TMPDIR": str(parent)}
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_what_a_killed_harness_left_is_swept_and_a_live_one_is_not(tmp_path: Path) -> None:
    dead, left = _harness(tmp_path)
    live, kept = _harness(tmp_path)
    dead.send_signal(signal.SIGKILL)
    dead.wait()
    (left / "file").write_text("x")
    folders.sweep(tmp_path)
    assert not left.parent.exists()
    assert kept.exists()
    live.communicate("")
    assert not kept.parent.exists()
    assert dead.stdout is not None
    assert dead.stdin is not None
    dead.stdout.close()
    dead.stdin.close()


def test_only_folders_with_a_free_lock_of_this_user_are_swept(tmp_path: Path) -> None:
    folder = tmp_path / "hermes-lab-foreign"
    folder.mkdir()
    folders.sweep(tmp_path)
    assert folder.exists()  # without a lock
    (folder / "lock").symlink_to("/etc/hostname")
    folders.sweep(tmp_path)
    assert folder.exists()  # a lock that is a link
    (folder / "lock").unlink()
    (folder / "lock").touch()
    with (folder / "lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        folders.sweep(tmp_path)
        assert folder.exists()  # held
    if os.geteuid() == 0:
        os.chown(folder / "lock", 4242, 4242)
        folders.sweep(tmp_path)
        assert folder.exists()  # another user's
        os.chown(folder / "lock", 0, 0)
    folders.sweep(tmp_path)
    assert not folder.exists()


def test_a_sweep_that_is_ended_in_the_middle_is_finished_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "hermes-lab-left"
    for number in range(20):
        (folder / str(number)).mkdir(parents=True)
    (folder / "lock").touch()

    def ended(*args: object, **options: object) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(os, "rmdir", ended)
        with pytest.raises(SystemExit):
            folders.sweep(tmp_path)
    assert (folder / "lock").exists()
    folders.sweep(tmp_path)
    assert not folder.exists()


def test_a_link_is_not_swept_and_nothing_behind_it_is_removed(tmp_path: Path) -> None:
    notes, temporary = tmp_path / "notes", tmp_path / "tmp"
    notes.mkdir()
    temporary.mkdir()
    for name in ("lock", "mine"):
        (notes / name).touch()
    (temporary / "hermes-lab-evil").symlink_to(notes)
    folders.sweep(temporary)
    assert {path.name for path in notes.iterdir()} == {"lock", "mine"}
    own = temporary / "hermes-lab-own"
    own.mkdir()
    (own / "lock").touch()
    (own / "out").symlink_to(notes)
    folders.sweep(temporary)
    assert not own.exists()
    assert {path.name for path in notes.iterdir()} == {"lock", "mine"}


def test_a_link_in_place_of_a_folder_is_removed_and_not_what_it_points_to(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir(0o500)
    (tmp_path / "link").symlink_to(kept)
    folders.remove_tree(tmp_path / "link")
    assert not (tmp_path / "link").is_symlink()
    assert kept.stat().st_mode & 0o777 == 0o500


@pytest.mark.anyio
async def test_an_exchange_folder_serves_again_and_tells_nothing_of_the_episode_before() -> None:
    async with open_sandbox(SandboxConfig()) as first:
        await first.exec("export SECRET=1; cd /tmp; echo out")
    async with open_sandbox(SandboxConfig()) as second:
        assert second.folders.exchange == first.folders.exchange  # type: ignore[attr-defined]
        killed = await second.exec("trap - EXIT; kill -KILL $BASHPID")
        assert (killed.output, killed.exit_code) == ("", 137)
        assert (await second.exec('pwd; echo "[$SECRET]"')).output == "/app/data\n[]\n"
        assert (await second.exec("cat /proc/self/fd/1 /proc/self/fd/199; echo over >&2")).output.count("SECRET") == 0


@pytest.mark.anyio
async def test_what_a_verifier_is_told_is_in_no_file_that_the_agent_has_open() -> None:
    async with open_sandbox(SandboxConfig()) as sandbox:
        await sandbox.exec(
            "(exec 5</proc/self/fd/1 >/dev/null 2>&1 199>&-; while :; do cat <&5 >>seen; sleep 0.05; done) &"
        )
        await sandbox.exec("echo mine; sleep 0.3")
        assert (await sandbox.exec("echo verdict", fresh=True)).output == "verdict\n"
        assert "verdict" not in (await sandbox.exec("sleep 0.3; cat seen /proc/self/fd/1")).output


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user stays who they are")
def test_a_started_process_gives_up_root_and_the_harness_keeps_it() -> None:
    groups = os.getgroups()
    piped = spawn.spawn(
        ["/bin/sh", "-c", "grep -E '^(Uid|Gid|Groups|Cap...):' /proc/self/status"], {}, (), launch.owner()
    )
    os.close(piped.stdin)
    with os.fdopen(piped.stdout, "rb") as out:
        status = {line.split(b":")[0]: line.split()[1:] for line in out.read().splitlines()}
    os.waitpid(piped.pid, 0)
    assert status[b"Uid"] == status[b"Gid"] == [b"65534"] * 4
    assert status[b"Groups"] == []
    assert status[b"CapPrm"] == status[b"CapEff"] == [b"0" * 16]
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == ((0, 0, 0), (0, 0, 0), groups)


def test_a_started_process_blocks_no_signal_though_the_harness_does() -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # as in a worker of Ray
    try:
        piped = spawn.spawn(["/bin/grep", "SigBlk", "/proc/self/status"], {})
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    os.close(piped.stdin)
    with os.fdopen(piped.stdout, "rb") as out:
        assert int(out.read().split()[1], 16) == 0
    os.waitpid(piped.pid, 0)


def test_a_process_that_cannot_be_started_leaves_the_harness_as_it_was() -> None:
    before, open_before = os.getresuid(), len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    with pytest.raises(FileNotFoundError):
        spawn.spawn(["/nowhere"], {}, (), launch.owner())
    assert os.getresuid() == before
    assert len(os.listdir("/proc/self/fd")) == open_before  # noqa: PTH208


def test_folders_of_a_harness_lie_where_temporary_files_do() -> None:
    assert folders.harness_folder(None).parent == Path(tempfile.gettempdir())
