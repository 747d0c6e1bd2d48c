"""One file per thing that is hooked. `install` puts all of them in place, now or as soon as their module is imported.

Each hook does nothing until the recorder is armed, and nothing in the child of a fork. None imports torch.
"""

from __future__ import annotations

from stepscope.recorder.after_import import after_import
from stepscope.recorder.hooks import autograd, checkpoint, collectives, functional, garbage, loader, modules, optimizer, wrappers

_installed = False


def install() -> None:
    """Once per process."""
    global _installed  # noqa: PLW0603 - hooks in torch are a fact of the process
    if _installed:
        return
    _installed = True
    garbage.install()
    after_import("torch", autograd.install)
    after_import("torch", modules.install)
    after_import("torch.serialization", checkpoint.install_serialization)
    after_import("torch.optim.optimizer", optimizer.install)
    after_import("torch.utils.data.dataloader", loader.install)
    after_import("torch.distributed.distributed_c10d", collectives.install)
    after_import("torch.distributed._functional_collectives", functional.install)
    after_import("torch.distributed.checkpoint.state_dict_saver", checkpoint.install_distributed)
    after_import("torch.nn.parallel.distributed", wrappers.install_ddp)
    after_import("torch.distributed.fsdp._fully_shard._fsdp_param_group", wrappers.install_fsdp2)
