"""What `hermes-lab serve` cannot do is refused before anything is started."""

import pytest
from fakes.command import lab


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("model.provider=openai", "model.provider: `serve` supports only vllm, not openai"),
        ("model.merge=true", "model.merge: `serve` keeps adapters apart from the weights"),
    ],
)
def test_it_is_one_line(value: str, said: str) -> None:
    done = lab("serve", "-c", "model.adapter=packaged", "-c", value)
    assert done.returncode == 2
    assert done.stderr.startswith(f"hermes-lab: error: {said}")
    assert done.stderr.count("\n") == 1
