import fnmatch
import string
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.tools.registry import ToolContext

Use = Callable[..., Awaitable[dict[str, Any]]]
pytestmark = pytest.mark.anyio
few = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])

FILES = {
    "a.py": "import os\nx = 1\n",
    "src/b.py": "def f():\n    import re\n    return 'é'\n",
    "src/deep/c.txt": "import nothing\r\n",
    "src/deep/d.py": "",
    "-e": "dash\n",
    "we ird'\"$`\n.txt": "odd name\n",
    ".git/config": "import hidden\n",
    "image.bin": "import\0",
}
LISTED = sorted(set(FILES) - {".git/config"})


@pytest.fixture
async def tree(context: ToolContext) -> None:
    for path, content in FILES.items():
        await context.sandbox.write(path, content.encode())
    await context.sandbox.exec("ln -s / root; ln -s /etc/passwd passwd; ln -s src/b.py alias.py; mkfifo pipe")


@pytest.mark.usefixtures("tree")
async def test_content_is_found_by_line(use: Use) -> None:
    assert await use("search_files", pattern=r"^\s*import \w+") == {
        "matches": "a.py:1:import os\nsrc/b.py:2:    import re\nsrc/deep/c.txt:1:import nothing"
    }
    assert await use("search_files", pattern="(?i)IMPORT", path="src", file_glob="*.py") == {
        "matches": "src/b.py:2:    import re"
    }
    assert await use("search_files", pattern="'é'", path="/app/data/src/b.py") == {
        "matches": "src/b.py:3:    return 'é'"
    }
    assert await use("search_files", pattern="nowhere") == {"matches": ""}


@pytest.mark.usefixtures("tree")
async def test_a_match_is_shown_with_its_context(use: Use) -> None:
    assert await use("search_files", pattern="import re", context=1) == {
        "matches": "src/b.py-1-def f():\nsrc/b.py:2:    import re\nsrc/b.py-3-    return 'é'"
    }


@pytest.mark.usefixtures("tree")
async def test_files_and_counts_of_matches(use: Use) -> None:
    assert await use("search_files", pattern="import", output_mode="files_only") == {
        "files": ["a.py", "src/b.py", "src/deep/c.txt"],
        "total": 3,
    }
    assert await use("search_files", pattern="^", output_mode="count", path="src", limit=1) == {
        "counts": {"src/b.py": 3},
        "total": 2,
    }
    assert await use("search_files", pattern="nowhere", output_mode="count") == {"counts": {}, "total": 0}


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*", LISTED),
        ("*.py", ["a.py", "src/b.py", "src/deep/d.py"]),
        ("src/*.py", ["src/b.py"]),
        ("src/**/*.py", ["src/b.py", "src/deep/d.py"]),
        ("**/deep/*.{py,txt}", ["src/deep/c.txt", "src/deep/d.py"]),
        ("[ab].py", ["a.py", "src/b.py"]),
        ("[!a].p?", ["src/b.py", "src/deep/d.py"]),
        ("./a.py", ["a.py"]),
        ("a.p", []),
        ("a[.py", []),
    ],
)
async def test_files_are_found_by_name(use: Use, pattern: str, found: list[str]) -> None:
    assert await use("search_files", pattern=pattern, target="files") == {"files": found, "total": len(found)}


@pytest.mark.usefixtures("tree")
async def test_results_come_in_pages(use: Use) -> None:
    assert await use("search_files", pattern="import", limit=2) == {
        "matches": "a.py:1:import os\nsrc/b.py:2:    import re",
        "next_offset": 2,
    }
    assert await use("search_files", pattern="import", limit=2, offset=2) == {
        "matches": "src/deep/c.txt:1:import nothing"
    }
    assert await use("search_files", pattern="*.py", target="files", limit=1, offset=1) == {
        "files": ["src/b.py"],
        "total": 3,
    }
    assert await use("search_files", pattern="*", target="files", offset=99) == {"files": [], "total": len(LISTED)}


async def test_long_results_are_cut_and_go_on(context: ToolContext, use: Use) -> None:
    await context.sandbox.write("wide", "".join(f"{n} {'é' * 5_000}\n" for n in range(5)).encode())
    answer, found = {"next_offset": 0}, []
    while "next_offset" in answer:
        answer = await use("search_files", pattern=r"^\d", offset=answer["next_offset"])
        found += str(answer["matches"]).splitlines()
    assert [line.split()[0] for line in found] == [f"wide:{n + 1}:{n}" for n in range(5)]
    assert all(line.endswith("é [...]") and len(line) < 600 for line in found)


@pytest.mark.usefixtures("tree")
@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"pattern": "("}, "pattern: missing closing parenthesis"),
        ({"pattern": "a\nb"}, "pattern: the -P option only supports a single pattern"),
        ({"pattern": ""}, "pattern: must not be empty"),
        ({"pattern": "x", "path": "nope"}, "nope: No such file or directory"),
        ({"pattern": "x", "path": "root"}, "root: symbolic links are not followed"),
        ({"pattern": "x", "path": "root/etc"}, "root: symbolic links are not followed"),
        ({"pattern": "x", "path": "src/../.."}, "src/../..: `..` is not allowed; give a path below /app/data"),
        ({"pattern": "x", "path": "/etc"}, "/etc: outside the workspace; give a path below /app/data"),
    ],
)
async def test_mistakes_are_told_in_one_line(use: Use, arguments: dict[str, Any], complaint: str) -> None:
    assert await use("search_files", **arguments) == {"error": complaint}


async def test_what_the_agent_exported_does_not_change_a_search(use: Use) -> None:
    await use("write_file", path="f", content="x\n")
    await use("terminal", command="mkdir sub; cd sub; export PATH=/nowhere GREP_OPTIONS=-v IFS=/")
    assert await use("search_files", pattern="x") == {"matches": "f:1:x"}
    assert (await use("terminal", command="pwd"))["output"] == "/app/data/sub\n"


HOSTILE = st.text(st.sampled_from("ab.*?[]{}()|^$\\/'\"`;& \n-!#~\0é\ud800"), max_size=12) | st.sampled_from(
    ["'; touch pwned; '", "$(touch pwned)", "`touch pwned`", "\n touch pwned\n", "-f/etc/passwd", "--", "-exec", "../x"]
)


@few
@given(
    pattern=HOSTILE,
    path=HOSTILE | st.sampled_from(["", "root", "src"]),
    file_glob=HOSTILE,
    output_mode=st.sampled_from(["content", "files_only", "count"]),
    target=st.sampled_from(["content", "files"]),
)
async def test_no_argument_escapes_its_quotes_or_the_workspace(
    context: ToolContext, tree: None, use: Use, **arguments: str
) -> None:
    answer = await use("search_files", **arguments)
    shown = str(answer.get("matches", "")) + "\n".join([*answer.get("files", ()), *answer.get("counts", ())])
    assert "root" not in shown
    assert "import hidden" not in shown
    assert (await context.sandbox.exec("find /app/data /tmp -name pwned")).output == ""


LINE = st.text(st.characters(codec="utf-8", exclude_characters="\0\n\r"), max_size=20)


@few
@given(lines=st.lists(LINE, min_size=1, max_size=5), needle=LINE.filter(bool))
async def test_an_escaped_text_is_found_where_it_stands(
    context: ToolContext, use: Use, lines: list[str], needle: str
) -> None:
    await context.sandbox.write("f", "".join(f"{line}\n" for line in [*lines, f"<{needle}>"]).encode())
    pattern = "".join(f"\\{char}" if char in string.punctuation else char for char in needle)
    found = (await use("search_files", pattern=pattern))["matches"]
    expected = [f"f:{n}:{line}" for n, line in enumerate([*lines, f"<{needle}>"], 1) if needle in line]
    assert found == "\n".join(expected)


NAME = st.text(st.sampled_from("ab.+$^()|"), min_size=1, max_size=4).filter(lambda name: bool(name.strip(".")))
GLOB = st.text(st.sampled_from("ab.*?+$^()|"), min_size=1, max_size=6).filter(lambda glob: "**" not in glob)


@few
@given(glob=GLOB, names=st.sets(NAME, min_size=1, max_size=6))
async def test_a_glob_means_what_a_shell_takes_it_to_mean(
    context: ToolContext, use: Use, glob: str, names: set[str]
) -> None:
    await context.sandbox.exec("rm -rf -- ./* ./.[!.]*")
    for name in names:
        await context.sandbox.write(f"sub/{name}", b"")
    answer = await use("search_files", pattern=glob, target="files")
    assert answer["files"] == sorted(f"sub/{name}" for name in names if fnmatch.fnmatchcase(name, glob))


LATIN_1 = "café total 1\nplain total 2\n\tnaïve\n".encode("latin-1")


@pytest.mark.parametrize("data", [LATIN_1, b"# \xff\xfe\n" + LATIN_1, LATIN_1 + b"\xe9" * 40_000])
async def test_a_line_that_is_not_utf_8_hides_no_match(context: ToolContext, use: Use, data: bytes) -> None:
    await context.sandbox.write("old.txt", data)
    await context.sandbox.write("new.txt", "café total 3\n".encode())
    first = data[: data.index(b"caf")].count(b"\n") + 1
    assert await use("search_files", pattern="total") == {
        "matches": f"new.txt:1:café total 3\nold.txt:{first}:caf\ufffd total 1\nold.txt:{first + 1}:plain total 2"
    }
    assert await use("search_files", pattern="total", output_mode="files_only") == {
        "files": ["new.txt", "old.txt"],
        "total": 2,
    }
    assert await use("search_files", pattern="total", output_mode="count") == {
        "counts": {"new.txt": 1, "old.txt": 2},
        "total": 2,
    }
    around = await use("search_files", pattern="plain", context=1)
    assert f"old.txt-{first}-caf\ufffd total 1" in around["matches"]


@pytest.mark.parametrize("output_mode", ["content", "files_only", "count"])
async def test_a_binary_file_is_not_searched(context: ToolContext, use: Use, output_mode: str) -> None:
    await context.sandbox.write("image.bin", b"total\n\0\n")
    await context.sandbox.write("wide.txt", "total\n".encode("utf-16"))
    answer = await use("search_files", pattern="t", output_mode=output_mode)
    assert "bin" not in str(answer)
    assert "wide" not in str(answer)
