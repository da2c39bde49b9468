"""A saved adapter computes what the model computed at the end of its training: reloaded, merged, and served.

Merged weights are served in test_whole_line.py and test_results_small.py.

Everything is computed in float32, since the rounding of bfloat16 is larger than the bound.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fakes.episodes import episode, write_run
from fakes.training import smoke_lock

from hermes_lab.config.schema import ServerConfig
from hermes_lab.models.endpoint import Endpoint
from hermes_lab.models.server import VllmServer
from hermes_lab.models.weights import merge_into
from hermes_lab.training.config import TrainConfig

pytestmark = [
    pytest.mark.real,
    pytest.mark.anyio,
    pytest.mark.filterwarnings("default"),  # of the libraries under test
]

BOUND = 1e-3
"""Of |difference|, in logits or nats. Measured: 2e-5 reloaded, 3e-5 merged, 2e-4 by vLLM."""
IN_FLOAT32 = ServerConfig(max_model_len=512, args=("--dtype", "float32"))


class Trained(NamedTuple):
    """An adapter, and what the trained model in memory predicted before it was saved."""

    folder: Path
    ids: list[int]
    logits_TV: Any


@pytest.fixture(scope="module")
def trained(packaged: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A training of four steps on the packaged model."""
    from transformers import AutoTokenizer

    from hermes_lab.training import job
    from hermes_lab.training.sft import train_sft

    tmp = tmp_path_factory.mktemp("reloaded")
    ids = AutoTokenizer.from_pretrained(packaged).encode("You use tools. List the files, and name the longest one.")
    lock = smoke_lock(tmp, "sft", total_steps=4, warmup_steps=0)
    run = write_run(tmp / "run", *(episode(f"task {n}") for n in range(6)))
    seen: list[Any] = []
    save = job.save_adapter

    def look_and_save(model: Any, folder: Path, locked: Any) -> None:
        save(model, folder, locked)
        # The base model has the adapter's layers, and not the trainer's autocast.
        seen.append(logits(model.float().get_base_model(), ids))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "save_adapter", look_and_save)
        folder = train_sft(TrainConfig(lock=lock, data=(str(run),), adapters=str(tmp / "adapters")), print, "")
    (logits_TV,) = seen
    return Trained(folder, ids, logits_TV)


def logits(model: Any, ids: Sequence[int]) -> Any:
    """Of every next token: float32 [T, V]."""
    import torch

    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor(ids)[None]).logits[0].float()


def in_float32(folder: Path, adapter: Path | None = None) -> Any:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return PeftModel.from_pretrained(model, adapter) if adapter else model


def largest(one: Any, other: Any) -> float:
    return float((one - other).abs().max())


def test_a_reloaded_and_a_merged_adapter_have_the_logits_of_the_trained_one(
    trained: Trained, packaged: Path, tmp_path: Path
) -> None:
    bare = logits(in_float32(packaged), trained.ids)
    reloaded = logits(in_float32(packaged, trained.folder), trained.ids)
    merge_into(tmp_path / "merged", packaged, trained.folder, dtype="float32")
    merged = logits(in_float32(tmp_path / "merged"), trained.ids)
    print([largest(trained.logits_TV, other) for other in (bare, reloaded, merged)])
    assert largest(trained.logits_TV, bare) > 1000 * BOUND
    assert largest(trained.logits_TV, reloaded) < BOUND
    assert largest(trained.logits_TV, merged) < BOUND


async def test_vllm_has_the_log_probabilities_of_the_trained_one(
    trained: Trained, packaged: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.delenv("VLLM_ENABLE_V1_MULTIPROCESSING", raising=False)  # the processes that a user's server has

    async with VllmServer(packaged, IN_FLOAT32, name="model", log=tmp_path / "server.log") as server:
        name = (await server.load_adapter(trained.folder)).name
        async with Endpoint(server.base_url) as endpoint:
            # The prompt's own log-probabilities: of the same tokens, whatever is sampled after them.
            body = {"model": name, "prompt": trained.ids, "max_tokens": 1, "prompt_logprobs": 0}
            content, _ = await endpoint.post("/completions", body)
    (choice,) = json.loads(content)["choices"]
    served = [row[str(id_)]["logprob"] for row, id_ in zip(choice["prompt_logprobs"], trained.ids, strict=True) if row]
    ids_T = torch.tensor(trained.ids)
    own_T = torch.log_softmax(trained.logits_TV[:-1], dim=-1).gather(1, ids_T[1:, None])[:, 0]
    print(largest(own_T, torch.tensor(served)))
    assert largest(own_T, torch.tensor(served)) < BOUND
