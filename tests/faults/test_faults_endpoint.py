"""Endpoints that fail: every failure is tried again, or an errored episode that names the endpoint; never a score."""

import gzip
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import anyio
import pytest
from fakes.command import lab
from fakes.openai_server import FakeOpenAIServer, Reply, reserved_port, running
from lab_process import lab_alone, on_endpoint

from hermes_lab.config.schema import ModelConfig
from hermes_lab.errors import ModelError
from hermes_lab.models import endpoint
from hermes_lab.models.client import EndpointClient, open_endpoint
from hermes_lab.records import read_episodes
from hermes_lab.types import Message, ModelIdentity

pytestmark = pytest.mark.timeout(60)

ASK = [Message("user", "Go.")]
GOOD = json.dumps({"choices": [{"message": {"content": "Good."}, "finish_reason": "stop"}]}).encode()
MEGABYTE = b" " * (1 << 20)
HTML = "<html><body>Bad gateway</body></html>"


def length(of: bytes, **more: str) -> dict[str, str]:
    return {"Content-Length": str(len(of)), **more}


def choices(*choice: object) -> Reply:
    return Reply(body={"choices": [each and {"finish_reason": "stop"} | each for each in choice]})


def calls(tool_calls: object) -> Reply:
    return choices({"message": {"tool_calls": tool_calls}})


class Fault(NamedTuple):
    reply: Reply
    says: str
    passing: bool = False
    """Another try may mend it."""


FAULTS = {
    "it hangs up": Fault(Reply(hang_up=True), "the connection broke", passing=True),
    "429": Fault(Reply(status=429, body="busy"), "HTTP 429: busy", passing=True),
    "429 with Retry-After": Fault(
        Reply(status=429, body="busy", headers={"Retry-After": "0"}), "HTTP 429: busy", passing=True
    ),
    "500": Fault(Reply(status=500, body={"error": {"message": "oh"}}), "HTTP 500: oh", passing=True),
    "502 from a proxy": Fault(Reply(status=502, body=HTML), "HTTP 502: <html>", passing=True),
    "503": Fault(Reply(status=503, body=""), "HTTP 503", passing=True),
    "503 that answers for ever": Fault(Reply(status=503, pieces=(MEGABYTE,) * 50), "exceeds 32 MB"),
    "torn, of a known length": Fault(
        Reply(pieces=[GOOD[:20]], headers=length(GOOD), torn=True), "the connection broke", passing=True
    ),
    "torn, chunked": Fault(Reply(pieces=[GOOD[:20]], torn=True), "the connection broke", passing=True),
    "it never answers": Fault(Reply("late", delay=600), "no reply within"),
    "it stops in the middle": Fault(Reply(pieces=[GOOD[:20], GOOD[20:]], pause=600), "no reply within"),
    "a slow dribble": Fault(Reply(pieces=[b" "] * 6000, pause=0.1), "no reply within"),
    "cut JSON": Fault(Reply(body=GOOD[:-3].decode()), "not JSON", passing=True),
    "not JSON": Fault(Reply(body="Good."), "not JSON", passing=True),
    "nested without end": Fault(Reply(body="[" * 100_000), "not JSON", passing=True),
    "nothing": Fault(Reply(body=""), "the reply is empty", passing=True),
    "an HTML page": Fault(
        Reply(body=HTML, headers={"Content-Type": "text/html"}), "an HTML page.*check model.base_url"
    ),
    "an error with status 200": Fault(Reply(body={"error": {"message": "oh"}}), "an error: oh", passing=True),
    "another type, and garbage": Fault(
        Reply(pieces=[b"\x89PNG\r\n\0"], headers={"Content-Type": "image/png"}), "not JSON", passing=True
    ),
    "no choices": Fault(choices(), "no choices", passing=True),
    "choices null": Fault(Reply(body={"choices": None}), "no choices", passing=True),
    "choice null": Fault(choices(None), "no choices", passing=True),
    "message null": Fault(choices({"message": None}), "no message", passing=True),
    "content is a number": Fault(choices({"message": {"content": 3}}), "content is a number", passing=True),
    "tool calls are a text": Fault(calls("terminal"), "no list of calls", passing=True),
    "a tool call is a number": Fault(calls([3]), "no list of calls", passing=True),
    "522 of a proxy": Fault(Reply(status=522, body=HTML), "HTTP 522: <html>", passing=True),
    "524 of a proxy": Fault(Reply(status=524, body=""), "HTTP 524", passing=True),
    "overloaded, with status 200": Fault(
        Reply(body={"error": {"message": "overloaded", "code": 502}}), r"overloaded \(code 502\)", passing=True
    ),
    "refused, with status 200": Fault(
        Reply(body={"error": {"message": "no such model", "code": 404}}), "no such model"
    ),
    "50 MB": Fault(Reply(pieces=(MEGABYTE,) * 50, headers=length(MEGABYTE * 50)), "exceeds 32 MB"),
    "50 MB, chunked": Fault(Reply(pieces=(MEGABYTE,) * 50), "exceeds 32 MB"),
    "50 MB in 50 kB": Fault(
        Reply(pieces=[bomb := gzip.compress(MEGABYTE * 50)], headers=length(bomb, **{"Content-Encoding": "gzip"})),
        "exceeds 32 MB",
    ),
    "no gzip": Fault(
        Reply(pieces=[GOOD], headers=length(GOOD, **{"Content-Encoding": "gzip"})), "(?i)encod|compress", passing=True
    ),
    "a redirect": Fault(Reply(status=307, body="", headers={"Location": "/v1/models"}), "HTTP 307"),
    "401": Fault(Reply(status=401, body={"error": {"message": "who?"}}), "HTTP 401: who?"),
    "404": Fault(Reply(status=404, body={"error": {"message": "no such model"}}), "HTTP 404: no such model"),
}

FINE = {
    "another type, and a reply": Reply(body=GOOD.decode(), headers={"Content-Type": "text/plain"}),
    "a text as usage": Reply(body=json.loads(GOOD) | {"usage": "much"}),
    "no count of tokens": Reply(body=json.loads(GOOD) | {"usage": {"prompt_tokens": None}}),
    "a byte-order mark": Reply(pieces=[b"\xef\xbb\xbf" + GOOD]),
    "chunked": Reply(pieces=[GOOD[:20], GOOD[20:]]),
    "byte by byte": Reply(pieces=[bytes([b]) for b in GOOD], headers=length(GOOD)),
}

HANDFUL = ("503", "torn, chunked", "it never answers", "an HTML page", "choices null", "a redirect", "401", "no gzip")


@asynccontextmanager
async def client_of(base_url: str, **config: Any) -> AsyncIterator[EndpointClient]:
    made = ModelConfig(name="fake", base_url=base_url, **config)
    async with open_endpoint(made, base_url, connections=4) as opened:
        yield EndpointClient(made, endpoint=opened, identity=ModelIdentity("openai", "fake"), tool_format="native")


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "_FIRST_WAIT", 0.001)


@pytest.mark.anyio
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_that_stays_is_an_error_that_names_the_endpoint(name: str, short_waits: None) -> None:
    fault = FAULTS[name]
    async with (
        FakeOpenAIServer([fault.reply]) as server,
        client_of(server.base_url, max_retries=1, timeout=2 if fault.says == "no reply within" else 30) as client,
    ):
        with pytest.raises(ModelError, match=fault.says) as raised:
            await client.generate(ASK, ())
    assert str(raised.value).startswith(f"{server.base_url}: ")
    assert "\n" not in str(raised.value)
    assert len(server.requests) == 1 + fault.passing


@pytest.mark.anyio
@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.passing])
async def test_a_fault_that_passes_is_counted(name: str, short_waits: None) -> None:
    fault = FAULTS[name]
    async with FakeOpenAIServer([fault.reply, fault.reply, "Good."]) as server, client_of(server.base_url) as client:
        reply = await client.generate(ASK, ())
    assert (reply.message.content, reply.retries) == ("Good.", 2)


@pytest.mark.anyio
@pytest.mark.parametrize("name", FINE)
async def test_a_reply_is_taken_in_whatever_form_it_comes(name: str) -> None:
    async with FakeOpenAIServer([FINE[name]]) as server, client_of(server.base_url) as client:
        reply = await client.generate(ASK, ())
    assert (reply.message.content, reply.retries) == ("Good.", 0)


@pytest.mark.anyio
async def test_an_endpoint_that_comes_back_is_found_again(short_waits: None) -> None:
    with reserved_port() as port:
        async with client_of(f"http://127.0.0.1:{port}/v1", max_retries=0) as client:
            with pytest.raises(ModelError, match=f"127.0.0.1:{port}/v1: cannot connect: Connection refused"):
                await client.generate(ASK, ())
            async with FakeOpenAIServer(["Good."], port=port):
                assert (await client.generate(ASK, ())).message.content == "Good."


@pytest.mark.anyio
async def test_one_that_hangs_does_not_hold_up_the_others() -> None:
    def answer(body: dict[str, Any]) -> Reply:
        return Reply("Good.", delay=600 if body["messages"][-1]["content"] == "Hang." else 0)

    async with (
        FakeOpenAIServer(answer) as server,
        client_of(server.base_url) as client,
        anyio.create_task_group() as group,
    ):
        group.start_soon(client.generate, [Message("user", "Hang.")], ())
        for _ in range(20):
            await client.generate(ASK, ())
        group.cancel_scope.cancel()


def test_a_run_accounts_for_every_fault_and_scores_none_of_them(tmp_path: Path) -> None:
    """Every task is judged by its answer, and its prompt names the fault that its request meets: always, or once."""
    asked: Counter[str] = Counter()

    def answer(body: dict[str, Any]) -> Reply | str:
        prompt = body["messages"][1]["content"]
        asked[prompt] += 1
        kind, _, name = prompt.partition(": ")
        if kind == "fine":
            return FINE[name]
        return FAULTS[name].reply if kind == "always" or asked[prompt] == 1 else "Good."

    always = [f"always: {name}" for name in HANDFUL]
    once = [f"once: {name}" for name in HANDFUL if FAULTS[name].passing]
    fine = [f"fine: {name}" for name in FINE]
    prompts = always + once + fine
    rows = [{"id": p, "prompt": p, "expected_output": "Good."} for p in prompts]
    with running(FakeOpenAIServer(answer)) as server:
        args = ["run", *on_endpoint(server.base_url, tmp_path, rows), "--out", tmp_path / "run"]
        args += ["-c", "model.max_retries=1", "-c", "model.timeout=10", "-c", "run.concurrency=20"]
        done = lab_alone(*args)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert f"{len(always)} of {len(prompts)} episodes did not finish" in done.stderr.splitlines()[-1]
        episodes = {episode.task_id: episode for episode in read_episodes(tmp_path / "run")}
        assert episodes.keys() == set(prompts)
        for prompt, episode in episodes.items():
            if prompt in always:
                assert episode.error is not None, prompt
                assert episode.error.kind == "model"
                assert episode.error.message.startswith(server.base_url)
                assert re.search(FAULTS[prompt.removeprefix("always: ")].says, episode.error.message)
                assert (episode.score, episode.success, episode.reward, episode.verdicts) == (None, None, None, ())
            else:
                assert episode.trajectory is not None, episode.error
                assert (episode.score, episode.trajectory.steps[0].retries) == (1.0, int(prompt in once))
        server.script = ["Good."]
        again = lab(*args, "--resume")
    assert again.returncode == 0, again.stderr
    assert [episode.score for episode in read_episodes(tmp_path / "run")] == [1.0] * len(prompts)


NO_ROOM = Reply(
    status=400,
    body={
        "error": {
            "message": "This model's maximum context length is 4096 tokens. However, you requested 4096 output tokens "
            "and your prompt contains at least 1 input tokens, for a total of at least 4097 tokens."
        }
    },
)


def test_a_reply_that_leaves_no_room_is_named_and_the_run_begins_again_with_a_shorter_one(tmp_path: Path) -> None:
    """Nothing has finished, so there is nothing that the other configuration could mix with."""
    run, logs = tmp_path / "run", tmp_path / "run" / "episodes"

    def answer(body: dict[str, Any]) -> Reply | str:
        return NO_ROOM if body["max_tokens"] == 4096 else "Good."

    rows = [{"id": str(n), "prompt": "Go.", "expected_output": "Good."} for n in range(2)]
    with running(FakeOpenAIServer(answer)) as server:
        args = ["run", *on_endpoint(server.base_url, tmp_path, rows), "--out", run]
        long, short = (["-c", f"model.sampling.max_tokens={limit}"] for limit in (4096, 1024))
        failed = lab(*args, *long)
        assert failed.returncode == 3
        said = failed.stderr.splitlines()[-1]
        assert "a reply of up to 4096 tokens leaves 0 of the model's context of 4096" in said
        assert "set a lower model.sampling.max_tokens" in said
        assert "the prompt does not fit" not in failed.stderr
        assert said.endswith("--resume retries them; the configuration may differ then, as none has finished")
        (record,) = logs.glob("*.jsonl")
        kept = record.read_bytes()

        refused = lab(*args, *short)
        assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
        assert f"{run}: holds a run of which nothing has finished; begin it again with --resume" in refused.stderr

        again = lab(*args, *short, "--resume")
        assert again.returncode == 0, again.stderr
        assert f"nothing has finished in {run}: it begins again" in again.stderr
        assert (logs / "failed-0" / record.name).read_bytes() == kept
        config = json.loads((run / "run.json").read_text())
        assert config["config"]["model"]["sampling"]["max_tokens"] == 1024
        episodes = list(read_episodes(run))
        assert {(episode.status, episode.config_digest) for episode in episodes} == {("ok", config["config_digest"])}
        assert json.loads((run / "summary.json").read_text())["errored"] == 0

        other = lab(*args, *long, "--resume")
        assert "was started with model.sampling.max_tokens=1024, now 4096; resume with the same value" in other.stderr
        assert len(list(read_episodes(run))) == 2


def test_a_run_is_set_aside_as_often_as_it_begins_again(tmp_path: Path) -> None:
    run = tmp_path / "run"
    with running(FakeOpenAIServer([NO_ROOM])) as server:
        args = ["run", *on_endpoint(server.base_url, tmp_path, [{"prompt": "Go."}]), "--out", run]
        for limit, options in ((4096, []), (4097, ["--resume"]), (4098, ["--resume"]), (4098, ["--resume"])):
            assert lab(*args, "-c", f"model.sampling.max_tokens={limit}", *options).returncode == 3
    logs = run / "episodes"
    assert sorted(path.relative_to(logs).as_posix() for path in logs.rglob("*.jsonl")) == [
        *("failed-0/w0-0.jsonl", "failed-1/w0-0.jsonl"),
        *("w0-0.jsonl", "w0-1.jsonl"),  # the same configuration continues the run
    ]


def test_one_episode_that_finished_keeps_the_configuration(tmp_path: Path) -> None:
    def answer(body: dict[str, Any]) -> Reply | str:
        return "Good." if body["messages"][1]["content"] == "Go." else NO_ROOM

    rows = [{"id": "good", "prompt": "Go."}, {"id": "bad", "prompt": "Go on."}]
    with running(FakeOpenAIServer(answer)) as server:
        args = ["run", *on_endpoint(server.base_url, tmp_path, rows), "--out", tmp_path / "run"]
        first = lab(*args, "-c", "model.sampling.max_tokens=4096")
        assert first.stderr.splitlines()[-1].endswith("(model.base_url, api_key_env, timeout) may differ then")
        again = lab(*args, "-c", "model.sampling.max_tokens=1024", "--resume")
    assert again.returncode == 2
    assert "was started with model.sampling.max_tokens=4096, now 1024" in again.stderr
    assert sorted(episode.status for episode in read_episodes(tmp_path / "run")) == ["errored", "ok"]


@pytest.mark.parametrize("command", ["run", "experiment"])
def test_who_waits_for_a_dead_address_is_told(command: str, tmp_path: Path, short_waits: None) -> None:
    suite = ["-c", "suite.name=ledger", *(["-c", "suite.count=1"] if command == "run" else [])]
    with reserved_port() as port:
        address = f"http://127.0.0.1:{port}/v1"
        model = ["-c", f"model.base_url={address}", "-c", "model.name=fake", "-c", "model.max_retries=2"]
        done = lab(command, *suite, *model, "--out", tmp_path / "run")
        quiet = lab(command, *suite, *model, "--out", tmp_path / "run", "--quiet")
    *_, first, second, error = done.stderr.splitlines()
    why = f"{address}: cannot connect: Connection refused"
    assert first == f"no reply yet, trying again (1 of 2): {why}"
    assert second == f"no reply yet, trying again (2 of 2): {why}"
    assert error.startswith(f"hermes-lab: error: {why}; start the server, or correct model.base_url")
    assert (done.returncode, quiet.returncode) == (3, 3)
    assert quiet.stderr.splitlines() == [error]
