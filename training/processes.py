"""One training in several processes, one for each GPU, as `accelerate launch` and `torchrun` start them.

The locked batch is divided among them, and gradients are added, so the adapter is that of one process but for rounding.
Only the first process writes files and prints.
"""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hermes_lab.errors import ConfigError
from hermes_lab.training.lock import LockedConfig

if TYPE_CHECKING:
    from torch import Tensor

_FROM_A_LAUNCHER = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")

T = TypeVar("T")


def count() -> int:
    """The processes of this training: 1, unless a launcher started several."""
    if any(not os.environ.get(name, "").strip() for name in _FROM_A_LAUNCHER):
        return 1
    size = os.environ["WORLD_SIZE"].strip()
    return int(size) if size.isdecimal() else 1


def is_first() -> bool:
    """Whether this process writes and prints."""
    return count() == 1 or os.environ["RANK"].strip() == "0"


def check_division(locked: LockedConfig) -> None:
    """Raises `ConfigError` if the locked batch cannot be divided among the processes."""
    if locked.batch_size % count():
        raise ConfigError(
            f"train: batch_size is locked at {locked.batch_size}, which {count()} processes cannot share evenly; start "
            f"a number of processes that divides it"
        )


def connect() -> None:
    """Connects the processes, if there are several; each uses the GPU of its number, or the CPU."""
    if count() == 1:
        return
    import torch
    from accelerate import PartialState

    state = PartialState(cpu=not torch.cuda.is_available())
    state.set_device()


def from_first(make: Callable[[], T]) -> T:
    """What `make` returns in the first process, in all of them. A `ConfigError` there is raised in all."""
    if count() == 1:
        return make()
    from accelerate.utils import broadcast_object_list

    shared: list[Any] = [None, None]
    if is_first():
        try:
            shared = [make(), None]
        except ConfigError as error:
            shared = [None, str(error)]
    broadcast_object_list(shared)
    if shared[1] is not None:
        raise ConfigError(shared[1])
    return cast(T, shared[0])


def total(value: int, device: Any) -> int:
    """The sum over all processes."""
    if count() == 1:
        return value
    import torch

    value_1 = torch.tensor([value], device=device)
    torch.distributed.all_reduce(value_1)
    return int(value_1)


def add_up(model: Any, loss: "Tensor") -> "Tensor":
    """Adds the gradients of the trained weights over all processes, and returns the sum of their losses."""
    if count() == 1:
        return loss
    import torch

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    flat_N = torch.cat([parameter.grad.flatten() for parameter in trained] + [loss.detach().reshape(1).float()])
    torch.distributed.all_reduce(flat_N)
    parts = flat_N.split([*(parameter.numel() for parameter in trained), 1])
    for parameter, part_N in zip(trained, parts[:-1], strict=True):
        parameter.grad.copy_(part_N.view_as(parameter))
    return parts[-1][0]
