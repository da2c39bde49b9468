"""How much memory a training can get: of the machine and of its control groups."""

from pathlib import Path

import pytest

from hermes_lab.training import machine

GB = 10**9


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with 16 GB free and no control groups."""
    monkeypatch.setattr(machine, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(machine, "_OWN_GROUPS", tmp_path / "own")
    monkeypatch.setattr(machine, "_GROUPS", tmp_path / "groups")
    (tmp_path / "meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {16 * GB // 1024} kB\n")
    return tmp_path / "groups"


def group(folder: Path, limit: str, used: int, cached: int, names: tuple[str, str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / names[0]).write_text(f"{limit}\n")
    (folder / names[1]).write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 5\n{names[2]} {cached}\n")


V2 = ("memory.max", "memory.current", "inactive_file")
V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def test_without_control_groups_it_is_what_the_machine_has(groups: Path) -> None:
    assert machine.free_memory() == pytest.approx(16 * GB, rel=1e-6)


@pytest.mark.parametrize("limited", ["", "a", "a/b"])
def test_the_tightest_group_of_version_2_counts(groups: Path, limited: str) -> None:
    (groups.parent / "own").write_text("0::/a/b\n")
    group(groups / "a" / "b", "max", 5 * GB, 0, V2)
    group(groups / limited, str(8 * GB), 3 * GB, GB, V2)
    assert machine.free_memory() == 6 * GB


def test_a_group_of_version_1_counts_also_where_a_container_sees_it_as_the_root(groups: Path) -> None:
    (groups.parent / "own").write_text("5:cpu:/x\n4:memory,hugetlb:/docker/123\n")
    group(groups / "memory", str(2 * GB), GB, 0, V1)
    assert machine.free_memory() == GB
    group(groups / "memory", "9223372036854771712", GB, 0, V1)
    assert machine.free_memory() == pytest.approx(16 * GB, rel=1e-6)
