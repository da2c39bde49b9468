"""The number format of a CPU is the one that it has fast kernels for."""

from pathlib import Path

import pytest

from hermes_lab.models.precision import cpu_dtype


@pytest.mark.parametrize(
    ("line", "dtype"),
    [
        ("flags\t\t: fpu sse2 avx2 avx512f avx512dq avx512bw avx512vl", "bfloat16"),
        ("flags\t\t: fpu sse2 avx2 fma", "float32"),
        ("flags\t\t: fpu sse2 avx2 avx512f", "float32"),  # a Xeon Phi
        ("Features\t: fp asimd bf16 i8mm", "bfloat16"),
        ("Features\t: fp asimd", "float32"),
        ("Model\t\t: avx512dq avx512bw avx512vl", "float32"),
    ],
)
def test_bfloat16_is_taken_where_the_cpu_multiplies_it(line: str, dtype: str, tmp_path: Path) -> None:
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(f"processor\t: 0\n{line}\n\nprocessor\t: 1\n{line}\n")
    assert cpu_dtype(cpuinfo) == dtype


def test_float32_is_taken_where_nothing_is_known(tmp_path: Path) -> None:
    assert cpu_dtype(tmp_path / "none") == "float32"
    (tmp_path / "empty").write_text("")
    assert cpu_dtype(tmp_path / "empty") == "float32"
