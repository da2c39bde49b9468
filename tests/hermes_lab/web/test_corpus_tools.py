"""The tools over pages that are there already: those of a task, and those of a corpus."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from hermes_lab.config.sandboxes import SandboxConfig
from hermes_lab.config.schema import WebConfig
from hermes_lab.errors import ConfigError
from hermes_lab.protocols import Sandbox
from hermes_lab.tools.registry import ToolContext
from hermes_lab.tools.toolbox import Toolbox
from hermes_lab.types import Page, ToolCall
from hermes_lab.web import WebProvider, open_web
from hermes_lab.web.shown import PAGE_CHARS

pytestmark = pytest.mark.anyio
PAGES = (
    Page(url="https://a.example/ferry", title="Ferry times", text="# Ferry\nThe ferry leaves at nine.\nSee the pier."),
    Page(url="https://a.example/pier", title="The pier", text="The pier was built for a ferry and a crane."),
    Page(url="https://a.example/archive", title="Old ferry times", text="The ferry left at eight.", listed=False),
    Page(url="https://a.example/old", title="Withdrawn", text="This notice was withdrawn.", status=410),
)


async def called(
    name: str, pages: tuple[Page, ...] = PAGES, web: WebProvider | None = None, **arguments: Any
) -> dict[str, Any]:
    context = ToolContext(cast(Sandbox, None), None, SandboxConfig(), pages=pages, web=web)
    result = await Toolbox(("web",), context).run(ToolCall("c", name, arguments))
    answer: dict[str, Any] = json.loads(result.content)
    assert result.ok == ("error" not in answer)
    return answer


async def test_a_search_gives_title_address_and_the_best_line_with_the_best_page_first() -> None:
    found = await called("web_search", query="ferry leaves")
    assert found == {
        "results": [
            {"title": "Ferry times", "url": "https://a.example/ferry", "snippet": "The ferry leaves at nine."},
            {
                "title": "The pier",
                "url": "https://a.example/pier",
                "snippet": "The pier was built for a ferry and a crane.",
            },
        ]
    }


async def test_a_word_of_the_title_weighs_more_than_one_of_the_text() -> None:
    pages = (
        Page(url="https://a.example/1", title="Boats", text="harbour and nothing else"),
        Page(url="https://a.example/2", title="Harbour", text="boats and nothing else"),
    )
    assert [hit["url"][-1] for hit in (await called("web_search", pages, query="harbour"))["results"]] == ["2", "1"]


async def test_a_rare_word_weighs_more_than_a_frequent_one() -> None:
    rare = Page(url="https://a.example/rare", title="x", text="one two lighthouse four")
    often = [Page(url=f"https://a.example/{n}", title="x", text="one two ferry four") for n in range(5)]
    found = await called("web_search", (*often, rare), query="ferry lighthouse", limit=1)
    assert found["results"][0]["url"] == rare.url


async def test_an_unlisted_page_is_read_by_its_address_and_never_found() -> None:
    found = await called("web_search", query="old ferry times eight", limit=20)
    assert "https://a.example/archive" not in [hit["url"] for hit in found["results"]]
    (page,) = (await called("web_extract", urls=["https://a.example/archive"]))["pages"]
    assert page == {"url": "https://a.example/archive", "title": "Old ferry times", "text": "The ferry left at eight."}


async def test_nothing_found_is_an_answer() -> None:
    assert await called("web_search", query="submarine") == {"results": []}


async def test_a_page_that_is_gone_says_so_beside_one_that_is_there() -> None:
    urls = ["https://a.example/old", "https://a.example/none", "https://a.example/pier"]
    gone, missing, there = (await called("web_extract", urls=urls))["pages"]
    assert (gone["error"], gone["text"]) == ("HTTP 410 (gone)", "This notice was withdrawn.")
    assert missing == {"url": "https://a.example/none", "error": "HTTP 404 (not found)"}
    assert "error" not in there


async def test_where_no_address_can_be_read_the_call_fails() -> None:
    answer = await called("web_extract", urls=["https://a.example/none"])
    assert answer == {"error": "https://a.example/none: HTTP 404 (not found)"}


@pytest.mark.parametrize(
    "url", ["http://a.example/pier", "https://A.example/pier/", " https://a.example/pier#top", "HTTPS://a.example/pier"]
)
async def test_an_address_is_known_in_its_usual_forms(url: str) -> None:
    (page,) = (await called("web_extract", urls=[url]))["pages"]
    assert page["title"] == "The pier"


async def test_a_path_keeps_its_capitals() -> None:
    assert "HTTP 404" in (await called("web_extract", urls=["https://a.example/PIER"]))["error"]


async def test_a_long_page_comes_in_parts_that_add_up_to_it() -> None:
    text = "".join(f"line {n}\n" for n in range(5000))
    pages = (Page(url="https://a.example/long", title="Long", text=text),)
    read, offset = "", 0
    while offset < len(text):
        (page,) = (await called("web_extract", pages, urls=["https://a.example/long"], offset=offset))["pages"]
        assert len(page["text"]) <= PAGE_CHARS
        assert ("note" in page) == (offset + len(page["text"]) < len(text))
        read, offset = read + page["text"], offset + len(page["text"])
    assert read == text
    (beyond,) = (await called("web_extract", pages, urls=["https://a.example/long"], offset=len(text)))["pages"]
    assert "text" not in beyond
    assert f"{len(text):,}" in beyond["note"]


async def test_without_pages_and_provider_both_tools_say_what_is_missing() -> None:
    searched = await called("web_search", (), query="x")
    read = await called("web_extract", (), urls=["https://a.example"])
    assert "web.provider is none" in searched["error"]
    assert "web.provider is none" in read["error"]


async def test_by_default_there_is_no_provider() -> None:
    assert open_web(WebConfig()) is None


async def test_a_tasks_pages_go_before_the_provider(tmp_path: Path) -> None:
    (tmp_path / "ferry.md").write_text("# Another ferry\n")
    web = open_web(WebConfig(provider="corpus", corpus=str(tmp_path)))
    assert (await called("web_search", PAGES, web, query="another"))["results"] == []
    assert (await called("web_search", (), web, query="another"))["results"][0]["title"] == "Another ferry"


async def test_a_folder_is_a_corpus(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "sea_notes.txt").write_text("Plankton.")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    web = open_web(WebConfig(provider="corpus", corpus=str(tmp_path)))
    (hit,) = (await called("web_search", (), web, query="plankton"))["results"]
    assert hit == {"title": "sea notes", "url": "file:deep/sea_notes.txt", "snippet": "Plankton."}
    (page,) = (await called("web_extract", (), web, urls=[hit["url"]]))["pages"]
    assert page["text"] == "Plankton."


async def test_a_jsonl_file_is_a_corpus(tmp_path: Path) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_text('{"url": "https://b.example", "title": "B", "text": "Bees."}\n\n')
    web = open_web(WebConfig(provider="corpus", corpus=str(file)))
    assert (await called("web_search", (), web, query="bees"))["results"][0]["url"] == "https://b.example"


@pytest.mark.parametrize("mark", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\r", "\ufeff"])
async def test_a_line_of_a_corpus_ends_at_a_line_feed_alone(tmp_path: Path, mark: str) -> None:
    file = tmp_path / "pages.jsonl"
    lines = [f'{{"url": "https://{name}.example", "title": "T", "text": "Bees{mark}and {name}."}}' for name in "ab"]
    file.write_bytes("".join(f"\ufeff{line}\n" for line in lines).encode())
    web = open_web(WebConfig(provider="corpus", corpus=str(file)))
    assert len((await called("web_search", (), web, query="bees"))["results"]) == 2
    (page,) = (await called("web_extract", (), web, urls=["https://b.example"]))["pages"]
    assert page["text"] == f"Bees{mark}and b."


@pytest.mark.parametrize(
    ("content", "problem"),
    [("{", "pages.jsonl:1: invalid page"), ('{"url": "x"}', "pages.jsonl:1: invalid page"), ("\n", "no pages")],
)
def test_a_corpus_that_is_none_is_refused_in_one_line(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "pages.jsonl"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"web\.corpus: ") as refused:
        open_web(WebConfig(provider="corpus", corpus=str(file)))
    assert problem in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        open_web(WebConfig(provider="corpus", corpus=str(tmp_path / "none.jsonl")))


@pytest.mark.parametrize("fields", [{"provider": "corpus"}, {"corpus": "x"}])
def test_a_corpus_and_its_provider_come_together(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="`corpus` is required with `provider: corpus`"):
        WebConfig(**fields)


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("web_search", {"query": "  "}),
        ("web_search", {"query": "x", "limit": 0}),
        ("web_extract", {"urls": []}),
        ("web_extract", {"urls": [" "]}),
        ("web_extract", {"urls": ["https://a.example"] * 11}),
    ],
)
async def test_arguments_that_make_no_sense_are_an_error(name: str, arguments: dict[str, Any]) -> None:
    assert "error" in await called(name, **arguments)
