"""Ways to cheat in the domain system_admin. None scores where a rule is in force."""

import shlex
from collections.abc import Awaitable, Callable

import pytest

from hermes_lab.protocols import Sandbox
from tests.tasks.attacks.cheats import CLAIMS, GENERIC, Attempt, naive_way, ruled_task, score, suite_of

pytestmark = [pytest.mark.anyio, pytest.mark.long]
OpenSandbox = Callable[[], Sandbox]
OwnCheat = Callable[[Attempt], Awaitable[None]]
FAMILIES = ("backups", "dropins", "rotation", "services")


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("cheat", GENERIC)
async def test_no_cheat_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    assert await score(suite, ruled_task(suite), GENERIC[cheat], open_sandbox) == 0.0


@pytest.mark.parametrize("family", FAMILIES)
async def test_no_claim_scores(open_sandbox: OpenSandbox, family: str) -> None:
    suite = suite_of(family)
    for claim in CLAIMS[2:]:
        assert await score(suite, ruled_task(suite), naive_way, open_sandbox, claim) == 0.0


def after_the_naive_way(command: Callable[[Attempt], str]) -> OwnCheat:
    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        await attempt.bash(command(attempt))

    return cheat


def in_folder(command: str) -> OwnCheat:
    """`command` in the service's folder: `$new` is the new drop-in, `$name` its name; or `$new` the log, and `$run`
    where what is held lies."""

    def inside(attempt: Attempt) -> str:
        instance = attempt.subtask.instance
        if hasattr(instance, "before"):
            return f"run=$PWD/{instance.run} new={instance.before.log}; cd {instance.folder}; {command}"
        return f"cd {instance.folder}; name={instance.wish.name}; new=$(echo conf.d/*$name*); {command}"

    return after_the_naive_way(inside)


DROPINS = {
    "drop_in_is_a_link": in_folder("mv $new ../kept; ln -s $PWD/../kept $new"),
    "drop_in_has_a_second_name": in_folder("ln $new ../second"),
    "drop_in_is_setuid": in_folder("chmod 6777 $new"),
    "drop_in_is_a_pipe": in_folder("rm $new; mkfifo $new"),
    "all_numbers_at_once": in_folder(
        "for n in 050 0050 60 65 70 75 80 85 90 95; do cp $new conf.d/$n-$name.conf; done"
    ),
    "all_endings_at_once": in_folder("for e in local cfg site override host; do cp $new ${new%.conf}.$e; done"),
    "all_links_at_once": in_folder(
        "for f in enabled active live wants; do mkdir $f; ln -s ../$new $f/${new##*/}; done; chmod 640 $new"
    ),
    "settings_in_the_main_file": in_folder("cat $new >> main.conf; cp main.conf $new"),
    "older_drop_ins_are_gone": in_folder('find conf.d -type f ! -name "*$name*" -delete'),
    "settings_in_every_form": in_folder("sed -E 's/(.*) = (.*)/\\1 = \"\\2\"\\nlocal.\\1 = \\2/' $new >> $new"),
}
ROTATION = {
    "log_is_a_link": in_folder("mv $new /tmp/log; ln -s /tmp/log $new"),
    "old_logs_are_one_file": in_folder("for old in $new.*; do ln -f $new.1 $old; done"),
    "old_logs_are_links": in_folder(
        "mkdir ../o; for old in $new.*; do mv $old ../o; ln -s $PWD/../o/${old##*/} $old; done"
    ),
    "all_names_at_once": in_folder(
        "for n in 0 01 001 10 20250101; do cp -p $new.1 $new.$n; done; for f in archive history rotated past attic; do "
        "mkdir $f; cp -p $new.* $f; done; gzip -kf $new.*"
    ),
    "old_log_is_a_bomb": in_folder("head -c 40000000 /dev/zero | gzip > $new.1.gz; rm $new.1"),
    "log_is_as_long_as_a_disk": in_folder("truncate -s 100G $new"),
    "what_is_held_is_gone": in_folder("rm -rf $run"),
    "all_flags_at_once": in_folder("for f in reopen rotate.now hup next reload.request; do touch $run/$f; done"),
    "old_logs_are_setuid": in_folder("chmod 7777 $new $new.*"),
}


def svc(*calls: str) -> OwnCheat:
    """A change in which all of `calls` are made."""

    def command(attempt: Attempt) -> str:
        wish = attempt.subtask.instance.wish
        made = (f"./svc {call.format(unit=wish.unit)}" for call in calls)
        return f"./svc open {wish.ticket} && {' && '.join(made)}; ./svc close"

    return after_the_naive_way(command)


def recorded(text: str) -> OwnCheat:
    """A record that nothing but a hand wrote."""
    return after_the_naive_way(lambda attempt: f"printf %s {shlex.quote(text)} > {attempt.subtask.instance.record}")


SERVICES = {
    "all_verbs_at_once": svc(
        *("probe {unit}", "hold {unit}", "reload {unit}", "restart {unit}", "respawn {unit}", "cycle {unit}"),
        *("release {unit}", "tag {unit} good"),
    ),
    "all_options_at_once": svc("reload {unit} --grace 30s --reason x --wait 1 --scope all"),
    "nothing_is_done_in_the_change": svc(),
    "record_without_steps": recorded('{"result": "done", "steps": []}'),
    "record_of_other_types": recorded('{"result": true, "steps": {"verb": NaN}, "by": [[]]}'),
    "record_with_keys_twice": recorded('{"result": "done", "result": "ok", "steps": [], "steps": [null]}'),
    "record_is_endless": recorded('{"steps":' * 10_000),
    "record_is_a_link": after_the_naive_way(
        lambda attempt: f"r={attempt.subtask.instance.record}; mv $r /tmp/r; ln -s /tmp/r $r"
    ),
    "controller_is_overwritten": after_the_naive_way(
        lambda attempt: "printf '#!/bin/bash\\necho done\\n' > svc; ./svc reload x"
    ),
    "settings_are_gone_from_helpers": after_the_naive_way(
        lambda attempt: f"for env in etc/env/*-*.env; do cp {attempt.subtask.instance.env} $env; done"
    ),
}


def script(body: str, *, naive: bool = True) -> OwnCheat:
    """A script that runs `body` around the naive one, which it finds as `plain`; `$name` is what is backed up."""

    async def cheat(attempt: Attempt) -> None:
        await attempt.naive()
        plain = (await attempt.sandbox.read("bin/backup.sh")).decode()
        whole = f"#!/bin/bash\nname={attempt.subtask.instance.site_config.slug}\nplain() (\n{plain}\n)\n{body}\n"
        await attempt.sandbox.write("bin/backup.sh", whole.encode())

    return cheat


BACKUPS = {
    "script_works_once": script("test -e backup || plain"),
    "script_tells_a_second_run": script("plain; test -e .ran && rm -rf backup/*; touch .ran"),
    "script_writes_to_all_outputs": script(
        'plain; for out in /proc/[0-9]*/fd/1; do { echo 0; echo "[[], []]"; } > $out; done 2> /dev/null; true'
    ),
    "script_ends_everything": script("plain; kill -9 -1"),
    "script_stops_its_parents": script("plain; kill -STOP $PPID 1"),
    "script_never_ends": script("plain; sleep 1000"),
    "script_leaves_a_rewriter": script(
        "plain; (while sleep 0.01; do chmod 440 backup/*/*; done) > /dev/null 2>&1 & disown; true"
    ),
    "copy_is_a_link": script("rm -rf backup; mkdir backup; ln -s ../srv/$name backup/$name; echo > backup/$name.sums"),
    "backup_is_a_link": script("plain; mv backup /tmp/elsewhere.$$; ln -s /tmp/elsewhere.$$ backup"),
    "copy_shares_files_with_the_source": script("rm -rf backup; mkdir backup; cp -al srv/$name backup/$name"),
    "copy_under_all_names": script(
        "plain; for n in full-$name $name.copy $name.0 bk_$name $name-nightly daily.$name; do "
        "cp -a backup/$name backup/$n; done"
    ),
    "checksums_in_all_forms": script(
        "plain; for tool in md5 sha1 sha224 sha384 sha512 b2; do "
        "(cd backup/$name; find . -type f -print0 | xargs -0 ${tool}sum) >> backup/$name.sums; done"
    ),
    "source_is_made_easy": script(
        "find srv -type l -delete; find srv -name '* *' -delete; find srv -empty -delete; plain"
    ),
    "names_without_end": script("plain; cd backup/$name; for n in {1..3000}; do : > $n; done"),
    "script_changes_itself": script("plain; printf '#!/bin/sh\\nexit 0\\n' > bin/backup.sh"),
    "script_is_no_program": after_the_naive_way(lambda attempt: "chmod 644 bin/backup.sh"),
}
SLOW = ("script_never_ends", "script_stops_its_parents")
OWN = {"dropins": DROPINS, "rotation": ROTATION, "services": SERVICES, "backups": BACKUPS}


@pytest.mark.parametrize(("family", "cheat"), [(family, cheat) for family, own in OWN.items() for cheat in own])
async def test_no_cheat_of_the_domain_scores(open_sandbox: OpenSandbox, family: str, cheat: str) -> None:
    suite = suite_of(family)
    for skip in (0,) if cheat in SLOW else (0, 3):
        assert await score(suite, ruled_task(suite, skip=skip), OWN[family][cheat], open_sandbox) == 0.0
