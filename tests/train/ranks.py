"""What each of several processes does in the tests of distributed training; launched once for all of them.

Each process leaves its results in FOLDER/rankN/results.pt. Called with one process they are the truth to compare with.
"""

import contextlib
import math
import os
import signal
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tiny
import torch
from accelerate.state import AcceleratorState
from tiny import fit, make_experiment, make_run, make_task
from torch import Tensor

from longwave.core import lock
from longwave.layers import Block
from longwave.models import SequenceModel
from longwave.tasks.autoregressive import PADDING, AutoregressiveTask
from longwave.train.loop import Interrupted, TrainingError
from longwave.train.optim import param_groups

DOUBLE = torch.float64
TIMEOUT = 240  # seconds
ROWS = (8, 7, 1)  # divided by two processes, not divided, and fewer than there are
PLAIN = {"model": {"dropout": 0.0}, "loop": {"eval_batch_size": 3}}
DROPOUT = {"loop": {"eval_batch_size": 1}}  # fewer rows than processes in every batch of evaluation
BATCH_NORM = {"model": {"norm": "batch"}, "loop": {"eval_batch_size": 1}}


def plain_task() -> tiny.Tiny:
    return make_task(train=13, dtype=DOUBLE)  # four batches: 4, 4, 4 and 1


def short_task() -> tiny.Tiny:
    return make_task(train=9, dtype=DOUBLE)  # the last batch of an epoch has one row


VOCABULARY = 5
TOKENS = {"vocabulary": VOCABULARY, "output_size": VOCABULARY, "decoder": "sequence"}


class Ragged:
    """Rows of 1, 2, 3 ... tokens to predict, with padding behind them."""

    def __len__(self) -> int:
        return 8

    def batch(self, indices: Sequence[int]) -> dict[str, Tensor]:
        tokens = torch.randint(0, VOCABULARY, (8, 9), generator=torch.Generator().manual_seed(5))
        there = torch.arange(8) < torch.arange(1, 9)[:, None]
        chosen = list(indices)
        return {"x": tokens[chosen, :-1], "y": torch.where(there, tokens[:, 1:], PADDING)[chosen]}


class RaggedTask(AutoregressiveTask):
    """Next-token prediction on such rows."""

    length = 8


def ragged_task() -> RaggedTask:
    splits: dict[str, Any] = {"train": Ragged(), "valid": Ragged(), "test": Ragged()}
    return RaggedTask(name="ragged", **splits, vocabulary=VOCABULARY, unit="token")


def gradients(folder: Path) -> dict[str, Any]:
    """The gradients that the optimiser sees, for batches of several sizes in one piece and in three."""
    found: dict[str, Any] = {}
    for name, task, model in (("rows", plain_task(), {}), ("ragged rows", ragged_task(), TOKENS)):
        for rows in ROWS:
            for accumulate in (1, 3):
                settings = make_experiment({"dropout": 0.0, **model}, {"accumulate": accumulate})
                run = make_run(folder, settings, task, quiet=True)
                (batch, is_ours), *_ = run.loading.load(task.train, [list(range(rows))])
                run.optimizer.zero_grad = lambda: None
                loss = run.step(batch, is_ours)
                grads = {name: parameter.grad for name, parameter in run.model.named_parameters()}
                found[f"{rows} {name}, accumulate {accumulate}"] = {"loss": loss, "gradients": grads}
    return found


def ragged_truth(rows: int) -> dict[str, Any]:
    """The mean over the tokens of a whole batch and its gradients, without the training loop."""
    torch.manual_seed(0)
    model = make_experiment({"dropout": 0.0, **TOKENS}).model.build()
    batch = Ragged().batch(range(rows))
    loss = torch.nn.functional.cross_entropy(model(batch["x"])[0].flatten(0, 1), batch["y"].flatten())
    loss.backward()
    return {"loss": loss.item(), "gradients": {name: p.grad for name, p in model.named_parameters()}}


def train(folder: Path, task: tiny.Tiny, settings: dict[str, Any], resume: bool = False) -> dict[str, Any]:
    run = make_run(folder, make_experiment(**settings), task, quiet=True)
    result = fit(run, resume)
    return {"result": result, "model": run.model.state_dict()}


def interrupted(folder: Path, task: tiny.Tiny, settings: dict[str, Any], rank: int) -> str:
    """Ctrl-C reaches the last process only, after its fifth step."""
    run = make_run(folder, make_experiment(**settings), task, quiet=True)
    step = run.step

    def struck(*arguments: Any) -> float:
        loss = step(*arguments)
        if rank == run.accelerator.num_processes - 1 and run.position.step == 4:
            os.kill(os.getpid(), signal.SIGINT)
        return loss

    run.step = struck  # type: ignore[method-assign]
    try:
        run.fit(resume=False)
    except Interrupted as note:
        return str(note)
    return "not interrupted"


def busy(folder: Path, rank: int) -> str:
    """The folder is held by the second process, so that the first, which would lock it for both, is refused."""
    run = make_run(folder, make_experiment(), plain_task(), quiet=True)
    try:
        with contextlib.ExitStack() as held:
            if rank == 1:
                held.enter_context(lock.hold(folder))
            run.accelerator.wait_for_everyone()
            held.enter_context(run.locked())
    except lock.Busy as error:
        return str(error)
    return "not refused"


def not_finite(folder: Path) -> str:
    """One bad row, which one of two processes gets to see."""
    task = plain_task()
    task.train.x[1] = math.nan
    run = make_run(folder, make_experiment(), task, quiet=True)
    (batch, is_ours), *_ = run.loading.load(task.train, [[0, 1, 2, 3]])
    try:
        run.step(batch, is_ours)
    except TrainingError as error:
        return str(error)
    return "no error"


def sharded(kind: str) -> dict[str, Any]:
    """A model that torch's FSDP has cut up: its gradients, and its weights after a step of AdamW, put together again.

    With one process: those of the model as it is.
    """
    torch.manual_seed(0)
    model = SequenceModel(make_experiment({"dropout": 0.0, "feed_forward": 6}).model)
    world = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    rank = torch.distributed.get_rank() if world > 1 else 0
    batch = plain_task().train.batch(range(rank, 8, world))
    wrapped: Any = model
    if world > 1 and kind == "fully_shard":
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (world,))
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        fully_shard(model, mesh=mesh)
    elif world > 1:
        from torch.distributed.fsdp import FullyShardedDataParallel
        from torch.distributed.fsdp.wrap import ModuleWrapPolicy

        wrapped = FullyShardedDataParallel(
            model, auto_wrap_policy=ModuleWrapPolicy({Block}), use_orig_params=True, device_id=torch.device("cpu")
        )
    optimizer = torch.optim.AdamW(param_groups(wrapped, lr=0.01, weight_decay=0.1))
    rates = sorted({group["lr"] for group in optimizer.param_groups})
    (wrapped(batch["x"])[0] - batch["y"]).square().mean().backward()

    def whole(with_grads: bool) -> Any:
        if wrapped is model:
            return contextlib.nullcontext()
        return FullyShardedDataParallel.summon_full_params(wrapped, with_grads=with_grads)

    def put_together(tensor: Any) -> Tensor:
        return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor.detach().clone()

    with whole(with_grads=True):
        gradients = {_plain(name): put_together(parameter.grad) for name, parameter in wrapped.named_parameters()}
    optimizer.step()
    with whole(with_grads=False):
        weights = {_plain(name): put_together(parameter) for name, parameter in wrapped.named_parameters()}
    return {"rates": rates, "gradients": gradients, "weights": weights}


def _plain(name: str) -> str:
    return name.replace("_fsdp_wrapped_module.", "")


def everything(folder: Path, rank: int) -> dict[str, Any]:
    return {
        "gradients": gradients(folder / "gradients"),
        "plain": train(folder / "plain", plain_task(), PLAIN),
        "batch norm": train(folder / "batch norm", short_task(), BATCH_NORM),
        "never stopped": train(folder / "never stopped", plain_task(), DROPOUT),
        "interrupted": interrupted(folder / "interrupted", plain_task(), DROPOUT, rank),
        "resumed": train(folder / "interrupted", plain_task(), DROPOUT, resume=True),
        "busy": busy(folder / "busy", rank),
        "not finite": not_finite(folder / "not finite"),
        **{kind: sharded(kind) for kind in ("fully_shard", "FullyShardedDataParallel")},
    }


def launch(folder: Path, world: int) -> list[dict[str, Any]]:
    """What became of `world` processes of one machine, over gloo on 127.0.0.1 (see `tiny.run_cases`)."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "GLOO_SOCKET_IFNAME": "lo"}
    common |= {"WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    cases = []
    for rank in range(world):
        environment = common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}
        script = f"import ranks; ranks.run_rank(folder, {rank}, {environment!r})"
        cases.append({"folder": str(folder / f"rank{rank}"), "script": script})
    return tiny.run_cases(cases, together=True)


def run_rank(own: Path, rank: int, environment: dict[str, str]) -> None:
    """Do everything as one of the processes, with the results in a folder of its own."""
    signal.alarm(TIMEOUT)  # one that waits for another in vain is ended
    os.environ |= environment
    AcceleratorState._reset_state(reset_partial_state=True)  # that of the process before the fork, which was alone
    torch.set_default_dtype(DOUBLE)
    torch.save(everything(own.parent, rank), own / "results.pt")
    torch.distributed.destroy_process_group()
