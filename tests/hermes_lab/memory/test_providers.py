"""An external memory provider, whatever it does, harms no turn."""

import logging
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import EntryPoint, EntryPoints
from threading import Event

import pytest

from hermes_lab import plugins
from hermes_lab.errors import ConfigError
from hermes_lab.memory.providers import GuardedProvider, open_provider


class Notebook:
    """A provider that works."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def recall(self, query: str) -> list[str]:
        return [text for text in self.texts if query in text]

    def remember(self, text: str) -> None:
        self.texts.append(text)


class Broken(Notebook):
    """Fails in a way of its own each time."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def recall(self, query: str) -> list[str]:
        raise self.error

    def remember(self, text: str) -> None:
        raise self.error


class Answers(Notebook):
    """Answers with whatever it was given."""

    def __init__(self, answer: object) -> None:
        self.answer = answer

    def recall(self, query: str) -> list[str]:
        return self.answer  # type: ignore[return-value]


class Slow(Notebook):
    """Waits until it may go on."""

    def __init__(self) -> None:
        self.may, self.done = Event(), Event()

    def recall(self, query: str) -> list[str]:
        self.may.wait()
        self.done.set()
        return ["late"]


def test_a_provider_recalls_what_it_was_told() -> None:
    provider = GuardedProvider("book", Notebook())
    for text in ("tea is green", "tea is black", "the sky"):
        provider.remember(text)
    assert provider.recall("tea", 5) == ["tea is green", "tea is black"]
    assert provider.recall("tea", 1) == ["tea is green"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError()])
def test_one_that_fails_has_recalled_nothing_and_is_asked_again(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    provider = GuardedProvider("broken", Broken(error))
    for _ in range(2):
        assert provider.recall("x", 5) == []
        provider.remember("x")
    assert caplog.text.count("memory provider broken failed") == 4


@pytest.mark.parametrize("answer", [None, 3, "one text", [1, 2], [b"x"]])
def test_one_that_answers_nonsense_has_recalled_nothing(answer: object, caplog: pytest.LogCaptureFixture) -> None:
    assert GuardedProvider("odd", Answers(answer)).recall("x", 5) == []
    assert "memory provider odd failed" in caplog.text


def test_an_endless_answer_ends_and_a_lone_surrogate_can_be_encoded() -> None:
    def endless() -> Iterator[str]:
        while True:
            yield "a\ud800"

    assert GuardedProvider("endless", Answers(endless())).recall("x", 3) == ["a?"] * 3


def test_a_slow_one_is_cut_off_passed_over_and_asked_again_once_it_is_back(caplog: pytest.LogCaptureFixture) -> None:
    slow = Slow()
    provider = GuardedProvider("slow", slow, timeout=0.05)
    assert provider.recall("x", 5) == []
    assert "no answer within 0.05 s" in caplog.text
    provider.remember("x")
    assert "still running" in caplog.text
    slow.may.set()
    slow.done.wait()
    provider = GuardedProvider("slow", slow)
    assert provider.recall("x", 5) == ["late"]


def test_one_that_hangs_does_not_keep_the_process(tmp_path: object) -> None:
    code = (
        "import time\n"
        "from hermes_lab.memory.providers import GuardedProvider\n"
        "class Hangs:\n"
        "    def recall(self, query): time.sleep(10_000)\n"
        "print(GuardedProvider('h', Hangs(), timeout=0.05).recall('x', 1))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(**wanted: str) -> Iterable[EntryPoint]:
        entries = [("book", "Notebook"), ("broken", "nothing"), ("twice", "Notebook"), ("twice", "Broken")]
        return EntryPoints(
            EntryPoint(name, f"{__name__}:{value}", "hermes_lab.memory_providers") for name, value in entries
        ).select(**wanted)

    monkeypatch.setattr(plugins, "entry_points", found)


@pytest.mark.usefixtures("installed")
def test_the_one_that_is_named_is_used_and_no_other() -> None:
    provider = open_provider("book")
    assert provider is not None
    provider.remember("tea")
    assert provider.recall("tea", 5) == ["tea"]
    assert open_provider("") is None


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("nobody", "no package offers 'nobody'; installed: book, broken, twice"),
        ("twice", "several packages offer 'twice': .*; uninstall all but one"),
        ("broken", "cannot be loaded: AttributeError.*; update or uninstall"),
    ],
)
def test_one_that_cannot_be_had_is_told(name: str, says: str) -> None:
    with pytest.raises(ConfigError, match=f"^memory.provider: .*{says}"):
        open_provider(name)


def test_nothing_is_logged_where_all_is_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    GuardedProvider("book", Notebook()).recall("x", 1)
    assert caplog.text == ""
