"""Connecting to a Ray cluster, and its resources."""

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
    """Connects to the cluster. An existing connection is reused and stays open."""
    if ray.is_initialized():
        yield
        return
    # By default, Ray would join any cluster that is still running on this machine.
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray sends usage statistics by default
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
    """Raises `OSError` if nothing listens at HOST:PORT; Ray would wait for minutes."""
    host, colon, port = address.rpartition(":")
    if colon and port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()


def room_for(cpus: float, resources: dict[str, float], node: str) -> int:
    """How many workers fit on the cluster, by the total resources of its nodes."""
    needs = {"CPU": cpus, **resources}
    there = [has for number, has in _nodes() if node in ("", number)]
    return sum(min(math.floor(has.get(name, 0.0) / amount) for name, amount in needs.items()) for has in there)


def _nodes() -> list[tuple[str, dict[str, float]]]:
    """The id and total resources of each live node."""
    return [(node["NodeID"], node["Resources"]) for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]


def what_it_has() -> str:
    """The nodes' resources as text, without those that Ray adds to identify nodes."""
    return "; ".join(", ".join(f"{n} {has[n]:g}" for n in sorted(has) if ":" not in n) for _, has in _nodes())


def one_line(error: Exception) -> str:
    """The first 300 characters of Ray's error message on one line; the rest is often pages of advice."""
    return " ".join(str(error).split())[:300]
