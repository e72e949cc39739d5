"""Save and restore a run's state: everything the next step depends on that does not follow from a seed."""

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_type_hints

import torch
from torch import Tensor

from longwave.core.settings import typed
from longwave.models.recurrence import map_tensors
from longwave.train import checkpoint
from longwave.train.folder import RunFolder
from longwave.train.schedule import Position

if TYPE_CHECKING:
    from longwave.train.loop import Run


def save(run: "Run") -> None:
    """Write a checkpoint; every process takes part."""
    random, trained, scaler = _random_states(run), run.trained_everywhere(), run.accelerator.scaler
    if run.main:
        run.folder.save_checkpoint(
            {
                "position": asdict(run.position),
                "model": run.model.state_dict(),
                "optimizer": run.optimizer.state_dict(),
                "scaler": None if scaler is None else scaler.state_dict(),
                "random": random,
                "trained": trained,
                "average": run.average.state_dict(),
                "carried": run.carried,
            }
        )
    run.accelerator.wait_for_everyone()


def resume(run: "Run") -> None:
    """Put a run in the state of its last checkpoint; without one, it starts anew."""
    folder = run.folder
    assert isinstance(folder, RunFolder)
    loaded = checkpoint.load(folder.checkpoints_path)
    run.accelerator.wait_for_everyone()
    if loaded is None:
        if run.main:
            folder.clear()
        return
    content, note = loaded
    if note and run.main:
        checkpoint.set_damaged_aside(folder.checkpoints_path)
        run.display.say(note)
    try:
        _restore(run, content)
    except (KeyError, TypeError, ValueError, RuntimeError, AttributeError, IndexError) as error:
        raise ValueError(
            f"{folder.checkpoints_path}: the checkpoint is not one of this run ({type(error).__name__}: {error}); "
            "train again with --overwrite, or in another folder"
        ) from error
    _check_best(run, folder)
    if run.position.steps is not None:
        run.display.expect(run.position.steps)
    if run.main:
        damaged = folder.truncate_metrics(run.position.step)
        if damaged:
            run.display.say(f"note: skipping {damaged} damaged lines of metrics.jsonl")
        run.display.say(f"resuming at step {run.position.step}")


def _restore(run: "Run", content: dict[str, Any]) -> None:
    """Put everything in the state that a checkpoint has."""
    types = get_type_hints(Position)
    run.position = at = Position(**{k: typed(v, types.get(k), k) for k, v in content["position"].items()})
    if not 0 <= at.batch <= run.batches:
        raise ValueError(f"batch {at.batch} of an epoch of {run.batches}")
    # Each process goes on with the sums of its own: added up in another order they would differ in the last digit.
    trained = content["trained"]
    if len(trained) != run.accelerator.num_processes:
        trained = torch.stack([trained.sum(0) * run.main])
    mine = trained[run.accelerator.process_index % len(trained)]
    at.trained = dict(zip(list(at.trained), mine.tolist(), strict=True))
    run.model.load_state_dict(content["model"])
    run.optimizer.load_state_dict(content["optimizer"])
    if run.accelerator.scaler is not None and content["scaler"]:
        run.accelerator.scaler.load_state_dict(content["scaler"])
    run.average.load_state_dict(content["average"])
    run.carried = map_tensors(lambda t: t.to(run.accelerator.device), content["carried"])
    _restore_random_states(run, content["random"])


def _random_states(run: "Run") -> Tensor:
    """The state of the generator that dropout draws from, in every process: (processes, bytes)."""
    device = run.accelerator.device
    state = torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()
    states: Tensor = run.accelerator.gather(state.to(device).unsqueeze(0))
    return states.cpu()


def _restore_random_states(run: "Run", states: Tensor) -> None:
    device = run.accelerator.device
    if states.shape != _random_states(run).shape:
        run.display.say("the run used other processes or devices: it resumes, but dropout differs from here on")
        return
    state = states[run.accelerator.process_index].clone()  # torch misreads a view into a larger tensor
    if device.type == "cuda":
        torch.cuda.set_rng_state(state, device)
    else:
        torch.set_rng_state(state)


def _check_best(run: "Run", folder: RunFolder) -> None:
    """Refuse to resume a run whose best weights are lost, unless the checkpoint has them."""
    at = run.position
    if math.isinf(at.best):
        return
    try:
        with torch.random.fork_rng(devices=[]):  # a new model draws its weights, and dropout must not notice
            folder.load_best()
    except ValueError as error:
        lost = error if folder.best_path.exists() else f"{folder.best_path} is missing"
        if at.best_step != at.step:
            raise ValueError(
                f"{lost}. The best weights, of step {at.best_step}, are lost, and the checkpoint is of step {at.step}: "
                f"restore {folder.best_path} from a copy, or train again with --overwrite"
            ) from error
        if run.main:
            with run.average.in_place_of_weights():
                folder.save_best(run.model)
            run.display.say(f"note: {lost}; rewriting it from the checkpoint, which has the same weights")
    run.accelerator.wait_for_everyone()
