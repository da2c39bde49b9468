"""Sessions in a real database file: what is kept comes back byte for byte, whatever is killed, raced or asked."""

import fcntl
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.errors import ConfigError, StoreError
from hermes_lab.migrations import version
from hermes_lab.sessions import Session, SessionKey, SessionStore, hermes_home, schema
from hermes_lab.sessions.keys import CHAT_TYPES, check_name, is_id
from hermes_lab.types import Compression, Message, ToolCall, ToolResult, Usage

WRITER = str(Path(__file__).with_name("session_writer.py"))
KEY = SessionKey("cli", "local")
SYSTEM = Message("system", "You are a terminal.")


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "home" / "sessions.db")


def begin(store: SessionStore, *said: str, name: str = "", key: SessionKey = KEY) -> Session:
    """A session in which a user said this."""
    session = store.create(key, model="m", messages=[SYSTEM], tools=[], name=name)
    return store.append(session, [Message("user", text) for text in said])


def found(store: SessionStore, query: str) -> list[int]:
    return sorted(hit.place for hit in store.search(query))


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(st.text(), json_values, max_size=3)
calls = st.builds(ToolCall, st.text(), st.text(), objects, st.text(), st.text())
results = st.builds(ToolResult, st.text(), st.text(), st.text(), st.booleans(), st.booleans(), st.floats(0, 1e6))
messages = st.builds(
    Message,
    st.sampled_from(["system", "user", "assistant", "tool"]),
    st.text(),
    st.lists(calls, max_size=2).map(tuple),
    st.lists(results, max_size=2).map(tuple),
    st.text(),
    st.text(),
)
tokens = st.integers(0, 10**9)
usages = st.builds(Usage, tokens, tokens)
compressions = st.builds(Compression, tokens, tokens, tokens, tokens, usages, st.floats(0, 1e6))
turns = st.lists(st.tuples(st.lists(messages, max_size=3), usages, st.lists(compressions, max_size=2)), max_size=3)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> SessionStore:
    return SessionStore(tmp_path_factory.mktemp("shared") / "sessions.db")


@settings(max_examples=20)  # every append waits for the disk
@given(system=messages, tools=st.lists(objects, max_size=2), turns=turns)
def test_a_session_comes_back_byte_for_byte(
    shared: SessionStore,
    system: Message,
    tools: list[dict[str, object]],
    turns: Sequence[tuple[list[Message], Usage, list[Compression]]],
) -> None:
    session = shared.create(KEY, model="m", messages=[system], tools=tools, tool_format="hermes")
    for said, usage, compressed in turns:
        session = shared.append(session, said, usage=usage, compressions=compressed)
    again = shared.load(session.id)
    assert again == session
    encode = msgspec.json.encode
    assert encode(again.messages) == encode([system, *(m for said, _, _ in turns for m in said)])
    assert encode(again.tools) == encode(tools)
    assert encode(again.compressions) == encode([c for _, _, compressed in turns for c in compressed])
    assert again.usage == sum((usage for _, usage, _ in turns), Usage())
    assert again.length == len(again.messages)


def test_the_database_is_made_on_first_use_in_a_folder_of_its_owner_alone(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "home" / "sessions.db")
    assert not store.path.parent.exists()
    assert store.latest() == []
    assert stat.S_IMODE(store.path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(store.path.stat().st_mode) == 0o600
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_the_home_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    assert hermes_home() == tmp_path
    assert SessionStore().path == tmp_path / "sessions.db"
    monkeypatch.delenv("HERMES_HOME")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert hermes_home() == tmp_path / "data" / "hermes-lab"


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("cli:local", KEY),
        ("telegram:-100123:7", SessionKey("telegram", "-100123", "7")),
        ("e-mail:a@b.c", SessionKey("e-mail", "a@b.c")),
        ("telegram:dm:5490634439", SessionKey("telegram", "5490634439", chat_type="dm")),
        ("telegram:group:-1001234567890", SessionKey("telegram", "-1001234567890", chat_type="group")),
        ("telegram:group:-100:7", SessionKey("telegram", "-100", "7", chat_type="group")),
        ("discord:#engineering", SessionKey("discord", "#engineering")),
        ("slack:C012AB3CD", SessionKey("slack", "C012AB3CD")),
        ("matrix:!abc%3Alocalhost:$e", SessionKey("matrix", "!abc:localhost", "$e")),
        ("irc:100%25%20sure", SessionKey("irc", "100% sure")),
        ("irc:group", SessionKey("irc", "group")),
        ("irc:%67roup:7", SessionKey("irc", "group", "7")),
        ("irc:dm:group:7", SessionKey("irc", "group", "7", chat_type="dm")),
    ],
)
def test_a_key_reads_as_it_is_written(text: str, key: SessionKey) -> None:
    assert SessionKey.parse(text) == key
    assert str(key) == text


def test_the_terminal_has_a_short_key() -> None:
    assert SessionKey.parse("cli") == KEY


parts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(["dm", "group", "a:b", "%3A", "%", " "])


@given(chat=parts.filter(bool), thread=parts, chat_type=st.sampled_from(["", *CHAT_TYPES]))
def test_every_id_survives_in_a_key(chat: str, thread: str, chat_type: Any) -> None:
    key = SessionKey("matrix", chat, thread, chat_type)
    assert SessionKey.parse(str(key)) == key
    assert len(set(key.spellings)) == (1 if chat_type else 1 + len(CHAT_TYPES))


@pytest.mark.parametrize(
    "text",
    [
        *("", "telegram", "cli:", ":local", "cli:a:b:c", "cli:a:", "Cli:a", "cli:a b", "cli:a\n", "a:%FF"),
        *("telegram:dm:", "telegram:dm:1:2:3", "telegram:channels:1:2", "matrix:!abc:localhost:$e"),
    ],
)
def test_a_bad_key_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(ConfigError, match="platform:chat") as error:
        SessionKey.parse(text)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["", " ", " a", "a:b", "20261122", "20261122-x", "a\nb", "x" * 101])
def test_a_name_that_could_be_something_else_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="session name"):
        check_name(name)


def test_a_session_is_found_by_name_key_and_the_beginning_of_its_id(store: SessionStore) -> None:
    old = begin(store, "one", name="taxes")
    new = begin(store, "two", key=SessionKey("telegram", "5", "9"))
    latest = begin(store, "three")
    assert store.find("taxes").id == store.find(old.id).id == old.id
    assert store.find("telegram:5:9").id == new.id
    assert store.find("cli:local").id == latest.id
    assert is_id(new.id)
    assert store.find(new.id[:-1]).id == new.id
    assert store.find("taxes").opening == "one"
    for missing in ("nobody", "cli:other", "19990101", new.id + "x", "\ud800"):
        with pytest.raises(ConfigError, match="no session"):
            store.find(missing)
    with pytest.raises(ConfigError, match="several sessions"):
        store.find(new.id[:3] + old.id[3:8])
    assert [info.id for info in store.latest(2)] == [latest.id, new.id]


def test_sessions_of_a_chat_are_found_with_and_without_its_type(store: SessionStore) -> None:
    texts = ("telegram:dm:5", "telegram:group:-100", "telegram:group:-100:7", "matrix:!a%3Ab", "cli:local")
    ids = {text: begin(store, key=SessionKey.parse(text)).id for text in texts}
    assert {text: store.find(text).id for text in texts} == ids
    assert store.find("telegram:5").id == ids["telegram:dm:5"]
    assert store.find("telegram:-100:7").id == ids["telegram:group:-100:7"]
    assert store.find("cli").id == ids["cli:local"]
    assert [info.key for info in store.latest(key=SessionKey("telegram", "-100"))] == ["telegram:group:-100"]
    for missing in ("telegram:group:5", "telegram:5:7", "matrix:!a:b", "matrix:!a"):
        with pytest.raises(ConfigError, match="no session"):
            store.find(missing)
    named = begin(store, name="cli")
    assert store.find("cli").id == named.id
    again = begin(store, key=SessionKey.parse("telegram:dm:5")).id
    assert [info.id for info in store.latest(key=SessionKey("telegram", "5", chat_type="dm"))] == [
        again,
        ids["telegram:dm:5"],
    ]
    assert len(store.latest(platform="telegram")) == 4
    assert store.latest(platform="tele") == []
    assert store.platforms() == ["cli", "matrix", "telegram"]


def test_names_are_unique_and_can_be_changed(store: SessionStore) -> None:
    first, second = begin(store, name="a"), begin(store)
    with pytest.raises(ConfigError, match="taken"):
        begin(store, name="a")
    with pytest.raises(ConfigError, match="taken"):
        store.rename(second.id, "a")
    store.rename(first.id, "b")
    store.rename(second.id, "a")
    assert (store.find("b").id, store.find("a").id) == (first.id, second.id)
    with pytest.raises(ConfigError, match="no session"):
        store.rename("20000101", "c")


def test_a_deleted_session_is_gone_from_the_search_too(store: SessionStore) -> None:
    session, other = begin(store, "marmalade"), begin(store, "marmalade")
    store.delete(session.id)
    assert [hit.session for hit in store.search("marmalade")] == [other.id]
    for again in (store.load, store.delete):
        with pytest.raises(ConfigError, match="no session"):
            again(session.id)
    with pytest.raises(ConfigError, match="deleted"):
        store.append(session, [])
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("SELECT DISTINCT session FROM messages").fetchall() == [(other.id,)]
        db.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)")


def test_two_that_go_on_with_the_same_session_do_not_mix_their_turns(store: SessionStore) -> None:
    session = begin(store, "hello")
    store.append(session, [Message("user", "mine")], usage=Usage(1, 1))
    with pytest.raises(ConfigError, match="another process"):
        store.append(session, [Message("user", "yours")], usage=Usage(5, 5))
    kept = store.load(session.id)
    assert [m.content for m in kept.messages[1:]] == ["hello", "mine"]
    assert kept.usage == Usage(1, 1)


# Places 1 to 5: the system prompt stands at 0.
SAID = (
    "red apple pie",
    "green apple",
    "red wagon",
    "Über-Äpfel café",
    "请检查这张发票的金额",
    "修改youer服务端的计划",
    "서버를 다시 시작했다",
    "ฉันมีแมว",
    "サーバーのlogを見る",
    "включи VPNом",
    "⚠️disk 💾full ❤️서버",
    "ＡＰＩ １号ﾊﾟﾈﾙ conﬁg",
    "हिन्दीtext中文",
)


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ("apple", [1, 2]),
        ("red apple", [1]),
        ("red AND apple", [1]),
        ("green OR wagon", [2, 3]),
        ("apple NOT red", [2]),
        ('"apple pie"', [1]),
        ('"pie apple"', []),
        ("wag*", [3]),
        ("uber cafe", [4]),
        ("发票", [5]),
        ("发票 金额", [5]),
        ("发票 苹果", []),
        ("youer", [6]),
        ("服务端 AND 修改", [6]),
        ("修改 NOT youer", []),
        ("发票 OR 计划", [5, 6]),
        ('"服务端的计划"', [6]),
        ('"计划服务端"', []),
        ("端服务", []),
        ("服务*", [6]),
        ("you*", [6]),
        ("youer服务", [6]),
        ("修", [6]),
        ("服务端 AND", [6]),
        ("서버를", [7]),
        ("\u1109\u1165\u1107\u1165", [7, 11]),
        ("서버가", []),
        ("แมว", [8]),
        ("มา", []),
        ("มี", [8]),
        ("มิ", []),
        ("サーバー", [9]),
        ("log", [9]),
        ("VPN", [10]),
        ("disk", [11]),
        ("full", [11]),
        ("서버", [7, 11]),
        ("API", [12]),
        ("ａｐｉ AND パネル", [12]),
        ("ﾊﾟﾈﾙ", [12]),
        ("config", [12]),
        ("text", [13]),
        ("中文", [13]),
        ("हिन्दी", [13]),
        ("发票\u3000金额", [5]),
        ("“apple pie”", [1]),
        ("“pie apple”", []),
        ("（green ＯＲ wagon）", [2, 3]),
        ("wag＊", [3]),
        ("red-apple", [1]),
        ("pie: red", [1]),
        ('"red apple', [1]),
        ("wagon AND", [3]),
        ("NOT wagon", [3]),
        ("(wag*", [3]),
        ("wag* )", [3]),
        ("red?wag*", [3]),
        ("terminal", []),
        ("", []),
        ('"', []),
        ("*", []),
        ("*reads", []),
        ("\0", []),
        ("\ud800", []),
        ("x " * 40_000, []),
        ("中 " * 4000, [13]),
        ("(" * 5000, []),
    ],
)
def test_a_search_finds_what_its_syntax_says_and_takes_what_is_none_as_words(
    shared_words: SessionStore, query: str, places: list[int]
) -> None:
    assert found(shared_words, query) == places


@pytest.fixture(scope="module")
def shared_words(tmp_path_factory: pytest.TempPathFactory) -> SessionStore:
    store = SessionStore(tmp_path_factory.mktemp("words") / "sessions.db")
    begin(store, *SAID)
    return store


syntax = st.lists(
    st.sampled_from([*'"()*:^+-{},', " ", "AND", "OR", "NOT", "NEAR", "NEAR(", "apple", "text", "found", "发票", "\0"])
).map(" ".join)


@given(st.text(st.characters()) | syntax | syntax.map(lambda text: text.replace(" ", "")))
def test_no_query_is_an_error(shared_words: SessionStore, query: str) -> None:
    shared_words.search(query)


@given(
    words=st.lists(st.sampled_from(["red", "apple", "pie"]), min_size=1, max_size=3),
    noise=st.text("(:^+-,'?!;", min_size=1),
)
def test_the_words_of_a_malformed_query_are_still_looked_for(
    shared_words: SessionStore, words: list[str], noise: str
) -> None:
    assert 1 in found(shared_words, " ".join(words) + ' " ' + noise)


def test_a_hit_says_where_it_stands_and_shows_it(store: SessionStore) -> None:
    long = "before " * 50 + "needle" + " after" * 50
    session = begin(store, long, name="hay", key=SessionKey("slack", "c", "t"))
    (hit,) = store.search("needle")
    assert (hit.session, hit.name, hit.key, hit.place, hit.role) == (session.id, "hay", "slack:c:t", 1, "user")
    assert "[needle]" in hit.snippet
    assert len(hit.snippet) < 200
    begin(store, "很长" * 100 + "针" + "很长" * 100)
    (hit,) = store.search("针")
    assert "[针]" in hit.snippet
    assert len(hit.snippet) < 200


def test_reasoning_is_not_found(store: SessionStore) -> None:
    session = begin(store, "How much?")
    store.append(session, [Message("assistant", "<think>perhaps zanzibar</think> madrid")])
    assert [hit.session for hit in store.search("madrid")] == [session.id]
    assert store.search("zanzibar") == []


def test_search_ranks_limits_and_filters(store: SessionStore) -> None:
    session = begin(store, "plum " + "and other fruit " * 20, "plum plum")
    begin(store, "plum")
    said = [
        Message("assistant", "", (ToolCall("c", "terminal", {"command": "grep quince"}),)),
        Message("tool", '{"output": "quince"}', results=(ToolResult("c", "terminal", "x"),)),
        Message("user", "<tool_response>quince</tool_response>", results=(ToolResult("c", "terminal", "x"),)),
    ]
    store.append(session, said)
    assert [hit.place for hit in store.search("plum", session=session.id)] == [2, 1]
    assert len(store.search("plum")) == 3
    assert len(store.search("plum", 1)) == 1
    assert store.search("plum", role="assistant") == []
    chat = begin(store, "plum", key=SessionKey("telegram", "5", chat_type="dm"))
    assert [hit.session for hit in store.search("plum", platform="telegram")] == [chat.id]
    assert len(store.search("plum", platform="cli")) == 3
    assert store.search("plum", platform="tele") == store.search("plum", platform="telegram", role="tool") == []
    assert {hit.role: hit.place for hit in store.search("quince", role="assistant")} == {"assistant": 3}
    assert sorted(hit.place for hit in store.search("quince", role="tool")) == [4, 5]


def test_threads_share_a_store(store: SessionStore) -> None:
    def talk(number: int) -> str:
        session = begin(store, f"thread {number}")
        for turn in range(5):
            session = store.append(session, [Message("user", f"turn {turn}")], usage=Usage(1, 0))
        return session.id

    with ThreadPoolExecutor(6) as pool:
        ids = list(pool.map(talk, range(6)))
    assert {(store.load(id).length, store.load(id).usage.prompt_tokens) for id in ids} == {(7, 5)}


def test_processes_make_and_share_one_database(tmp_path: Path) -> None:
    path = tmp_path / "fresh" / "sessions.db"
    writers = [
        subprocess.Popen([sys.executable, WRITER, str(path), "new", "15"], stdout=subprocess.DEVNULL) for _ in range(4)
    ]
    assert [writer.wait() for writer in writers] == [0] * 4
    store = SessionStore(path)
    assert [info.length for info in store.latest()] == [30] * 4
    assert len(store.search('"question 7"')) == 4


def test_kill_9_loses_at_most_the_append_it_struck(store: SessionStore) -> None:
    session = begin(store)
    for _ in range(3):
        before = store.load(session.id).length
        writer = subprocess.Popen(
            [sys.executable, WRITER, str(store.path), session.id], stdout=subprocess.PIPE, text=True
        )
        assert writer.stdout is not None
        told = [writer.stdout.readline() for _ in range(4)]
        writer.send_signal(signal.SIGKILL)
        told += writer.stdout.read().splitlines()
        writer.stdout.close()
        assert writer.wait() == -signal.SIGKILL
        kept = store.load(session.id)
        turns = [m.content.split()[:2] for m in kept.messages[before:]]
        assert turns == [[who, str(n)] for n in range(len(turns) // 2) for who in ("question", "answer")]
        assert 0 <= len(turns) // 2 - len(told) <= 1
        assert kept.usage.prompt_tokens == 3 * (kept.length - 1) // 2
    with closing(sqlite3.connect(store.path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        db.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)")


def test_a_failed_append_leaves_nothing_of_itself(store: SessionStore) -> None:
    session = begin(store, "hello")
    with pytest.raises(UnicodeEncodeError):
        store.append(session, [Message("user", "fine"), Message("user", "\ud800")], usage=Usage(1, 1))
    assert store.load(session.id) == session


def test_an_older_database_is_brought_forward_and_keeps_what_it_has(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = begin(store, "hello")
    later = (*schema.MIGRATIONS, ("ALTER TABLE sessions ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",))
    monkeypatch.setattr(schema, "MIGRATIONS", later)
    with closing(sqlite3.connect(store.path)) as db:
        schema.migrate(db, later)
        assert (version(db), db.execute("SELECT colour FROM sessions").fetchall()) == (len(later), [("red",)])
    assert store.load(session.id) == session


def test_a_database_from_before_openings_were_kept_still_says_how_each_session_began(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "old.db")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        schema.migrate(db, schema.MIGRATIONS[:1])
        for id in ("said", "silent"):
            db.execute(
                "INSERT INTO sessions VALUES (?, 'cli:local', NULL, 'm', 'native', x'5b5d', 't', 't', 0, 0)", (id,)
            )
        rows = [(0, "system", ""), (1, "user", "hello " * 20), (2, "user", "bye")]
        db.executemany("INSERT INTO messages VALUES (NULL, 'said', ?, ?, ?, x'7b7d', 't')", rows)
    assert {info.id: info.opening for info in store.latest()} == {"said": ("hello " * 20)[:80], "silent": ""}


OLD = ["修改youer服务端的计划", "서버를 고쳐라", "plain words", "⚠️ﾊﾟﾈﾙ"]


@pytest.fixture
def before_cuts(tmp_path: Path) -> SessionStore:
    """A database of version 2 with one session, in which this was said."""
    store = SessionStore(tmp_path / "old.db")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        schema.migrate(db, schema.MIGRATIONS[:2])
        db.execute(
            "INSERT INTO sessions VALUES ('s', 'cli:local', NULL, 'm', 'native', x'5b5d', 't', 't', 0, 0, 'plain')"
        )
        rows = [(n, text, msgspec.json.encode(Message("user", text))) for n, text in enumerate(OLD)]
        db.executemany("INSERT INTO messages VALUES (NULL, 's', ?, 'user', ?, ?, 't')", rows)
    return store


def holds_what_was_said(store: SessionStore) -> None:
    words = ("youer", "服务端", "서버", "words", "パネル")
    assert [found(store, word) for word in words] == [[0], [0], [1], [2], [3]]
    assert [message.content for message in store.load("s").messages] == OLD
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("INSERT INTO found(found, rank) VALUES ('integrity-check', 1)")


def test_a_database_from_before_words_were_cut_finds_them_after(before_cuts: SessionStore) -> None:
    holds_what_was_said(before_cuts)
    assert before_cuts.search("服务端")[0].snippet == "修改youer[服务端]的计划"
    before_cuts.delete("s")
    assert found(before_cuts, "words") == []


def test_words_as_they_were_cut_first_are_cut_again(before_cuts: SessionStore) -> None:
    with closing(sqlite3.connect(before_cuts.path, isolation_level=None)) as db:
        schema.migrate(db, schema.MIGRATIONS[:3])
        old = (
            ("⚠️ﾊ\u200bﾟ\u200bﾈ\u200bﾙ", 3),
            ("修\u200b改\u200byouer\u200b服\u200b务\u200b端\u200b的\u200b计\u200b划", 0),
        )
        db.executemany("UPDATE messages SET text = ? WHERE place = ?", old)
        db.execute("INSERT INTO found (found) VALUES ('rebuild')")
    holds_what_was_said(before_cuts)


DIES = """
import os, signal, sys
from pathlib import Path
from hermes_lab.sessions import SessionStore, schema

calls, cut = int(sys.argv[2]), schema.cut

def dying(text):
    global calls
    calls -= 1
    return cut(text) if calls else os.kill(os.getpid(), signal.SIGKILL)

schema.cut = dying
SessionStore(Path(sys.argv[1])).latest()
"""


@pytest.mark.parametrize("calls", [2, len(OLD) + 2])
def test_kill_9_in_a_migration_loses_nothing(before_cuts: SessionStore, calls: int) -> None:
    args = [sys.executable, "-c", DIES, str(before_cuts.path), str(calls)]
    assert subprocess.run(args, check=False).returncode == -signal.SIGKILL
    with closing(sqlite3.connect(before_cuts.path)) as db:
        assert version(db) == (2 if calls == 2 else 4)
    holds_what_was_said(before_cuts)


def test_keys_from_before_ids_were_escaped_name_the_same_chats(tmp_path: Path) -> None:
    store = SessionStore(tmp_path / "old.db")
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        schema.migrate(db, schema.MIGRATIONS[:3])
        for id, key in (("20250101-a", "irc:100%3A"), ("20250101-b", "telegram:-100:7")):
            db.execute(
                "INSERT INTO sessions VALUES (?, ?, NULL, 'm', 'native', x'5b5d', 't', 't', 0, 0, '')", (id, key)
            )
    (info,) = store.latest(key=SessionKey("irc", "100%3A"))
    assert SessionKey.parse(info.key).chat == "100%3A"
    assert store.find("telegram:-100:7").id == "20250101-b"


def test_the_opening_is_what_was_typed_first_though_more_was_sent(store: SessionStore) -> None:
    session = begin(store)
    session = store.append(session, [Message("user", "<skill>\nlong\n</skill>\n\ndo it")], typed="/skill do it")
    session = store.append(session, [Message("user", "more")], typed="more")
    assert session.opening == store.find(session.id).opening == "/skill do it"


def test_a_migration_that_fails_changes_nothing(store: SessionStore) -> None:
    begin(store)
    broken = (*schema.MIGRATIONS, ("ALTER TABLE sessions ADD COLUMN colour TEXT", "NO SQL"))
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        with pytest.raises(sqlite3.OperationalError):
            schema.migrate(db, broken)
        assert version(db) == len(schema.MIGRATIONS)
        assert "colour" not in [row[1] for row in db.execute("PRAGMA table_info(sessions)")]


def test_a_database_of_a_later_program_is_left_alone(store: SessionStore) -> None:
    begin(store)
    with closing(sqlite3.connect(store.path)) as db:
        db.execute("PRAGMA user_version = 99")
    with pytest.raises(ConfigError, match=r"sessions\.db: database version 99.*update"):
        store.latest()


def test_a_file_that_is_no_database_is_named(store: SessionStore) -> None:
    store.path.parent.mkdir()
    store.path.write_text("dear diary, " * 1000)
    with pytest.raises(ConfigError, match=r"sessions\.db: not a session database"):
        store.latest()
    assert store.path.read_text().startswith("dear diary")


def test_a_path_that_cannot_be_opened_is_a_failure_of_the_store(store: SessionStore) -> None:
    store.path.mkdir(parents=True)
    with pytest.raises(StoreError, match=r"sessions\.db"):
        store.latest()


def test_a_chat_that_works_below_the_home_does_not_block_its_new_database(tmp_path: Path) -> None:
    """Such a chat locks the folders above its workspace."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        assert SessionStore(tmp_path / "sessions.db").latest() == []
    finally:
        os.close(descriptor)
