#!/usr/bin/env python3
"""A test double of apptainer, which no package of this system has: `apptainer exec` over bubblewrap.

It takes the options that the lab uses, as apptainer 1.4 documents them, and refuses all others. Unlike the real one it
runs folders alone, no .sif files.
"""

import argparse
import os
import sys
from pathlib import Path

_ETC = ("etc/passwd", "etc/group", "etc/ld.so.cache", "etc/alternatives")


def main() -> None:
    """Runs the command in a container."""
    parser = argparse.ArgumentParser(prog="apptainer", allow_abbrev=False)
    parser.add_argument("--silent", action="store_true")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("exec", allow_abbrev=False)
    for flag in ("--containall", "--cleanenv", "--no-home", "--no-privs", "--net", "--nv", "--rocm"):
        run.add_argument(flag, action="store_true")
    run.add_argument("--network")
    run.add_argument("--env", action="append", default=[])
    run.add_argument("--bind", action="append", default=[])
    run.add_argument("--pwd")
    run.add_argument("image")
    run.add_argument("inside", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    if asked.network and not asked.net:
        sys.exit("FATAL:   --network needs --net")
    if not Path(asked.image).is_dir():
        sys.exit(f"FATAL:   could not open image {asked.image}: no such file or directory")
    command = ["bwrap", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--die-with-parent"]
    command += ["--unshare-net"] if asked.net and asked.network == "none" else []
    command += ["--cap-drop", "ALL"] if asked.no_privs else []
    for name in ("usr", "bin", "sbin", "lib", "lib32", "lib64", *_ETC):
        path = Path(asked.image) / name
        if path.is_symlink():
            command += ["--symlink", str(path.readlink()), f"/{name}"]
        elif path.exists():
            command += ["--ro-bind", str(path), f"/{name}"]
    command += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/root", "--tmpfs", "/home"]
    for bind in asked.bind:
        source, target, *mode = bind.split(":")
        command += ["--ro-bind" if mode == ["ro"] else "--bind", source, target]
    command += ["--chdir", asked.pwd or "/", "--clearenv", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
    for variable in asked.env:
        name, _, value = variable.partition("=")
        command += ["--setenv", name, value]
    os.execvp("bwrap", [*command, "--", *asked.inside])


if __name__ == "__main__":
    main()
