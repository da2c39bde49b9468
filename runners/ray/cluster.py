"""A connection to a Ray cluster, and what the cluster has."""

import logging
import math
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import ray

from hermes_lab.errors import ConfigError

_REACH_SECONDS = 10.0


@contextmanager
def ray_cluster(address: str) -> Iterator[None]:
    """A connection to the cluster; one that is there already is used, and left."""
    if ray.is_initialized():
        yield
        return
    # Not Ray's own default, which joins any cluster that somebody left on this machine.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray asks the network otherwise
    try:
        _reach(address)
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        raise ConfigError(f"run.ray.address: {address}: {one_line(error)}") from None
    try:
        yield
    finally:
        ray.shutdown()


def _reach(address: str) -> None:
    """Raises `OSError` where nobody listens at HOST:PORT, which Ray would wait for many minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()


def room_for(cpus: float, resources: dict[str, float], node: str) -> int:
    """How many workers the cluster can hold, by all that its nodes have."""
    needs = {"CPU": cpus, **resources}
    there = [has for number, has in _nodes() if node in ("", number)]
    return sum(min(math.floor(has.get(name, 0.0) / amount) for name, amount in needs.items()) for has in there)


def _nodes() -> list[tuple[str, dict[str, float]]]:
    """The id of each living node, and all that it has."""
    return [(node["NodeID"], node["Resources"]) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def what_it_has() -> str:
    """The nodes for a person, without what Ray gives each to name it by."""
    return "; ".join(", ".join(f"{n} {has[n]:g}" for n in sorted(has) if ":" not in n) for _, has in _nodes())


def one_line(error: Exception) -> str:
    """What an error of Ray says, without its pages of advice."""
    return " ".join(str(error).split())[:300]
