"""The plugin, in modules that stand for those of vLLM. The real ones are in `tests/real/test_vllm.py`."""

import logging
import sys
from types import ModuleType, SimpleNamespace

import pytest

from hermes_lab.models.vllm_plugin import keep_base_model

DEFINED, USED = "vllm.lora.ops.torch_ops.lora_ops", "vllm.lora.punica_wrapper.punica_cpu"


def vllm(monkeypatch: pytest.MonkeyPatch, *, cpu: bool, operations: tuple[str, ...]) -> dict[str, ModuleType]:
    """Installs a package whose operations do what those of vLLM do: index -1 is the last slot."""
    modules = {name: ModuleType(name) for name in ("vllm.platforms", DEFINED, USED)}
    vars(modules["vllm.platforms"])["current_platform"] = SimpleNamespace(is_cpu=lambda: cpu)

    def operation(inputs: object, weights: object, output: object, adapters: object, factor: float = 1.0) -> None:
        output += factor * inputs * weights[adapters][:, None]  # type: ignore[operator, index, misc]

    for name in operations:
        for module in (DEFINED, USED):
            setattr(modules[module], name, operation)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return modules


OPERATIONS = ("bgmv_shrink", "bgmv_expand", "bgmv_expand_slice")


@pytest.mark.parametrize(("cpu", "base"), [(True, 0.0), (False, 14.0)])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("module", [DEFINED, USED])
def test_a_row_of_the_base_model_gets_nothing_from_an_adapter(
    monkeypatch: pytest.MonkeyPatch, cpu: bool, base: float, name: str, module: str
) -> None:
    torch = pytest.importorskip("torch", reason="vLLM's operations are torch's")
    modules = vllm(monkeypatch, cpu=cpu, operations=OPERATIONS)
    keep_base_model()
    output = torch.zeros(3, 2)
    getattr(modules[module], name)(
        torch.ones(3, 2), torch.tensor([5.0, 7.0]), output, torch.tensor([0, -1, 1]), factor=2.0
    )
    assert output.tolist() == [[10.0, 10.0], [base, base], [14.0, 14.0]]


@pytest.mark.parametrize("operations", [(), OPERATIONS[:2]])
def test_another_vllm_is_left_alone_and_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, operations: tuple[str, ...]
) -> None:
    modules = vllm(monkeypatch, cpu=True, operations=operations)
    before = [dict(vars(module)) for module in modules.values()]
    with caplog.at_level(logging.WARNING):
        keep_base_model()
    assert [vars(module) for module in modules.values()] == before
    assert "LoRA on CPUs is not repaired: " in caplog.text
