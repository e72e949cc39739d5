"""The training loop, on accelerate; it resumes bit by bit after a kill.

Everything that the next step depends on is either in the checkpoint (weights and their average, optimiser, random
states, position, and the state that is carried on, if there is one) or follows from the seed and the epoch (the order
of the examples, how they are augmented). A resumed run therefore repeats what it had done since its last checkpoint,
bit by bit, and goes on (`run_state`).
"""

import contextlib
import math
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from accelerate import DistributedType
from torch import Tensor, nn

from longwave import ops
from longwave.core import lock
from longwave.experiments.prepared import Prepared
from longwave.experiments.published import SCORES
from longwave.models.pretrained import build
from longwave.tasks.base import Batch, Outcome, Scores, Split, Task
from longwave.train import run_state, signals, trackers
from longwave.train.average import Average
from longwave.train.device import find_device, make_accelerator
from longwave.train.display import Display
from longwave.train.divergence import first_bad
from longwave.train.folder import RunFolder
from longwave.train.loading import Loading
from longwave.train.optim import make_optimizer
from longwave.train.schedule import Position, Schedule
from longwave.train.trained import MemoryRun


class TrainingError(RuntimeError):
    """A run that failed: the message says why and what to do."""


class Diverged(TrainingError):
    """A run whose loss or score is no longer finite."""


class Interrupted(Exception):
    """Ctrl-C, SIGTERM or SIGHUP: the run was saved and can be resumed."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = signals.exit_code(number)


class _StopsValidation(Exception):
    """A signal that came during a validation, which is then repeated."""


class ModelOnTask(nn.Module):
    """A model and its task as one module, so that data-parallel training sees a single forward."""

    def __init__(self, model: nn.Module, task: Task) -> None:
        super().__init__()
        self.model, self.task = model, task

    def forward(self, batch: Batch, state: Any = None) -> Outcome:
        """Loss and scores of a batch; from a state, if one is carried on."""
        outcome: Callable[..., Outcome] = self.task.outcome
        return outcome(self.model, batch) if state is None else outcome(self.model, batch, state)


class Run:
    """One training run, in a folder or in memory."""

    def __init__(
        self, folder: RunFolder | MemoryRun, prepared: Prepared, *, quiet: bool = False, device: str = "auto"
    ) -> None:
        self.folder, self.prepared = folder, prepared
        self.experiment, self.task = experiment, task = prepared.experiment, prepared.task
        self.config = experiment.loop
        assert self.config.epochs is not None
        self.epochs = self.config.epochs
        precision = experiment.optim.precision
        if precision == "fp16" and find_device(device).type == "cpu":
            raise ValueError("precision: fp16 needs a GPU, and there is none; expected bf16 or no")
        trackers.check(self.config.tracker)
        self.accelerator = make_accelerator(
            device, precision, log_with=self.config.tracker, project_dir=str(folder.path)
        )
        kind = self.accelerator.distributed_type
        if kind in (DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.MEGATRON_LM):
            raise TrainingError(
                f"training needs the whole model in every process, and was launched with {kind.value}; launch it "
                "without, or train the model in a loop of your own (docs: training)"
            )
        ops.keep_memory()
        torch.manual_seed(self.config.seed)  # the same weights in every process
        self.model: Any = build(experiment.model, f"{folder.config_path}: model")
        optim = experiment.optim
        optimizer = make_optimizer(self.model, optim)
        self.base_rates = [group["lr"] for group in optimizer.param_groups]
        self.module, self.optimizer = self.accelerator.prepare(ModelOnTask(self.model, task), optimizer)
        torch.manual_seed(self.config.seed * 1_000_003 + self.accelerator.process_index)  # dropout of its own in each
        self.average = Average(self.model, optim.ema)
        self.position = Position()
        self.test_outputs: Tensor | None = None  # once the test set was scored, if the report shows them
        self.batches = math.ceil(len(task.train) / self.config.batch_size)
        self.schedule = Schedule(optim, self.config, self.epochs, self.batches)
        for part, split in (("training", task.train), ("validation", task.valid)):
            if not len(split):
                raise TrainingError(f"task {task.name}: the {part} set is empty")
        self.loading = Loading(task, self.config, self.accelerator)
        self.carried: dict[int, Any] = {}  # states to go on from, by the first row of the part of the batch
        self.display = Display(quiet or not self.main, self.batches, self.epochs, task.goal)
        if self.loading.workers < self.config.workers:
            self.display.say(f"note: using {self.loading.workers} of {self.config.workers} workers: one per core")
        self._interrupted = 0  # the signal that came
        self._saved = time.perf_counter()  # when the last checkpoint was

    # Running

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder against other runs; the main process does so for all processes of this one."""
        with contextlib.ExitStack() as stack:
            refused = None
            if self.main:
                try:
                    note = stack.enter_context(self.folder.locked())
                    if note:
                        self.display.say(f"note: {note}")
                except lock.Busy as error:
                    refused = error
            if any(self._any_process(refused is not None)):
                raise refused or lock.Busy(f"{self.folder.path}: the main process found that another run is using it")
            yield

    def fit(self, resume: bool) -> dict[str, Any]:
        """Train to the end, then score the best weights on the validation and test sets."""
        if resume:
            run_state.resume(self)
        elif self.main:
            self.folder.clear()
        try:
            with self.display, trackers.tracking(self.accelerator, self.experiment), signals.raised():
                with signals.handled(self._on_signal):
                    self._train()
                return self._finish()
        except KeyboardInterrupt as error:
            number = getattr(error, "number", signal.SIGINT)
            raise Interrupted(self.folder.resumed_by("stopped; "), number) from None

    def _train(self) -> None:
        at = self.position
        if at.is_validating:
            self._validate(at.loss)
        elif at.step == 0 and math.isinf(at.best) and self.experiment.model.prepare(self.model, self.prepared.spec):
            self.average.start()
            self._validate(self._first_loss())  # what the model starts from may be the best that there will be
        while not at.finished and at.epoch < self.epochs:
            started = time.perf_counter()
            if at.batch == 0:
                self.carried = {}
            for batch, is_ours in self.loading.train_batches(at.epoch, at.batch):
                loss = self.step(batch, is_ours)
                at.batch += 1
                at.step += 1
                self.display.step(at.epoch, at.batch, loss, self.schedule.factor(self.position))
                if self.schedule.timing_begins(at):
                    at.seconds += time.perf_counter() - started
                    started = time.perf_counter()
                    at.timed_step, at.timed_seconds = at.step, at.seconds
                if self.schedule.fit_is_due(at):
                    at.seconds += time.perf_counter() - started
                    self._fit_to_minutes()
                    started = time.perf_counter()
                if self.schedule.validation_is_due(at):
                    at.seconds += time.perf_counter() - started
                    started = time.perf_counter()
                    at.finished = at.step >= self.schedule.steps(at)
                    self._validate(loss)
                    at.validating += time.perf_counter() - started
                    started = time.perf_counter()
                minutes = (time.perf_counter() - self._saved) / 60  # since the last checkpoint
                flags = bool(self._interrupted), minutes >= self.config.checkpoint_minutes
                is_interrupted, is_late = self._any_process(*flags)
                if is_interrupted or (is_late and not at.finished):
                    at.seconds += time.perf_counter() - started
                    self._save()
                    started = time.perf_counter()
                if is_interrupted:
                    raise self._interruption()
                if at.finished:
                    return
            at.seconds += time.perf_counter() - started
            at.epoch, at.batch = at.epoch + 1, 0
        at.finished = True

    def _interruption(self) -> Interrupted:
        """The exception of a run that a signal stopped, and that was saved."""
        message = self.folder.resumed_by(f"stopped at step {self.position.step}; ", "resume with")
        return Interrupted(message, self._interrupted or signal.SIGINT)

    def _first_loss(self) -> float:
        """The loss of the first batch, before any step; nothing is drawn at random."""
        self.module.eval()
        batch, is_ours = next(self.loading.load(self.task.train_at(0, self.config.seed), self.loading.order(0)[:1]))
        with torch.no_grad():
            loss = float(self.module(batch).loss) if is_ours else 0.0
        terms = self._sum_over_processes(float(self.task.count(batch) * is_ours))
        return self._sum_over_processes(loss) / max(1.0, terms)

    def step(self, batch: Batch, is_ours: bool = True) -> float:
        """Take one optimiser step; a batch of another process adds nothing, but joins collective operations.

        The loss is a sum over the terms of the whole batch, in all its parts and processes, over their number. So each
        term weighs the same, wherever it is computed: rows may have unequal numbers of tokens.
        """
        self.module.train()
        for group, rate in zip(self.optimizer.param_groups, self.base_rates, strict=True):
            group["lr"] = rate * self.schedule.factor(self.position)
        size = len(batch["x"])
        rows = math.ceil(size / self.experiment.optim.accumulate)
        terms = max(1.0, self._sum_over_processes(float(self.task.count(batch) if is_ours else 0)))
        processes, total = self.accelerator.num_processes, 0.0
        for start in range(0, size, rows):
            part = {name: values[start : start + rows] for name, values in batch.items()}
            is_last = start + rows >= size
            synced = contextlib.nullcontext() if is_last else self.accelerator.no_sync(self.module)
            with synced, self._failing_if_singular(batch):
                # Gradients are averaged over the processes, so that each of them brings its sum so many times.
                outcome = self.module(part, self.carried.get(start))
                loss = outcome.loss / terms * (processes if is_ours else 0)
                self.accelerator.backward(loss)
            if outcome.state is not None:
                self.carried[start] = outcome.state
            self._count_scores(outcome, is_ours)
            total += float(loss.detach()) / processes
        total = self._sum_over_processes(total)
        if not math.isfinite(total):
            self._fail("the loss is not finite", batch)
        if self.experiment.optim.clip:
            self.accelerator.clip_grad_norm_(self.module.parameters(), self.experiment.optim.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.average.update(self.position.step)
        return total

    def _count_scores(self, outcome: Outcome, is_ours: bool) -> None:
        """Add the scores of a training batch, dropout and all, to those since the last validation."""
        for name, (total, count) in outcome.scores.items():
            sums = self.position.trained.setdefault(name, [0.0, 0.0])
            sums[0] += float(total.detach()) * is_ours
            sums[1] += count * is_ours

    def trained_everywhere(self) -> Tensor:
        """The sums and counts of training scores of every process: (processes, scores, 2)."""
        gathered: Tensor = self.accelerator.gather(self.position.trained_sums().to(self.accelerator.device))
        return gathered.cpu()

    def _sum_over_processes(self, value: float) -> float:
        """The sum of a number over the processes, which they then agree on."""
        if self.accelerator.num_processes == 1:
            return value
        mine = torch.tensor(value, dtype=torch.float64, device=self.accelerator.device)
        return float(self.accelerator.reduce(mine, reduction="sum"))

    def _any_process(self, *flags: bool) -> list[bool]:
        """Whether each flag is set in any of the processes, on which they then agree."""
        if self.accelerator.num_processes == 1:
            return list(flags)
        mine = torch.tensor(flags, dtype=torch.int64, device=self.accelerator.device)
        return [bool(count) for count in self.accelerator.reduce(mine, reduction="sum")]

    def _fit_to_minutes(self) -> None:
        """Decide how many steps fit the minutes, from the time that steps have taken; a checkpoint stores it.

        So a resumed run follows the same schedule, but two runs need not: it depends on the machine.
        """
        at = self.position
        at.refit_step = None if at.steps is None else at.step
        fitting = self.schedule.fitting_steps(at, len(self.task.valid))
        at.steps = int(self._sum_over_processes(float(fitting))) // self.accelerator.num_processes
        at.timed_step, at.timed_seconds = at.step, at.seconds
        self.display.expect(at.steps)
        self._save()

    def _save(self) -> None:
        run_state.save(self)
        self._saved = time.perf_counter()

    # Scores

    def evaluate(self, split: Split, part: Any = None, outputs: list[Tensor] | None = None) -> Scores:
        """Exact scores over a whole split, whatever the batches and processes; of the model, or of a part of it.

        `outputs` takes those of each batch, of a task that has some to show.
        """
        sums: dict[str, Tensor] = {}
        self.module.eval()
        with torch.no_grad():
            for batch, is_ours in self.loading.evaluation_batches(split):
                if any(self._any_process(bool(self._interrupted))):  # who sends SIGTERM does not wait for long
                    raise _StopsValidation
                with self._failing_if_singular(batch):
                    found = self.module(batch) if part is None else self.task.outcome(part, batch)
                if outputs is not None and found.output is not None:
                    outputs.append(found.output.cpu())
                for name, (total, count) in found.scores.items():
                    pair = torch.stack((total.double(), total.new_full((), count, dtype=torch.float64))) * is_ours
                    sums[name] = sums[name] + pair if name in sums else pair
        names = list(sums)
        stacked = self.accelerator.reduce(torch.stack([sums[name] for name in names]), reduction="sum")
        means = {name: float(total / count) for name, (total, count) in zip(names, stacked, strict=True)}
        return self.task.reported(means)

    def _validate(self, loss: float) -> None:
        self.position.loss, self.position.is_validating = loss, True
        try:
            with self.average.in_place_of_weights():
                self._validate_weights(loss)
        except _StopsValidation:
            self._save()
            raise self._interruption() from None
        self.position.is_validating = False
        self._save()

    def _validate_weights(self, loss: float) -> None:
        at, goal = self.position, self.task.goal
        self.display.validating()
        self.module.eval()
        if self.prepared.calibrate is not None:
            self.prepared.calibrate(self.model, partial(self.loading.some_of, self.task.valid))
        scores = self.evaluate(self.task.valid)
        value = -scores[goal] if self.task.higher_is_better else scores[goal]
        if not math.isfinite(value):
            self._fail(f"the validation score {goal} is not finite")
        # An accuracy may stand at its best for many validations while the model still learns, as its loss shows.
        loss_there = scores.get("loss", 0.0)
        if not math.isfinite(loss_there):
            self._fail("the validation loss is not finite")
        better = (value, loss_there) < (at.best, at.best_loss)
        at.stale, at.plateau = (0, 0) if better else (at.stale + 1, at.plateau + 1)
        if better:
            at.best, at.best_loss = value, loss_there
        if better or self.config.keep == "last":
            at.best_step, at.best_scores = at.step, scores
            if self.main:
                self.folder.save_best(self.model)
        if at.plateau > self.experiment.optim.plateau_patience:
            at.rate, at.plateau = at.rate * self.experiment.optim.plateau_factor, 0
        if self.config.patience and at.stale >= self.config.patience:
            at.finished = True
        lr = self.base_rates[0] * self.schedule.factor(self.position)
        line = {"step": at.step, "epoch": at.step / self.batches, "loss": loss, "lr": lr, "seconds": at.seconds}
        trained = zip(at.trained, self.trained_everywhere().sum(0).tolist(), strict=True)
        line |= {f"train_{name}": total / count for name, (total, count) in trained if count}
        line |= {f"valid_{name}": v for name, v in scores.items()}
        at.trained = {}
        if self.main:
            self.folder.log(line)
        self.accelerator.log(line, step=at.step)
        self.display.validated(at.step, loss, scores[goal], better)

    def _finish(self) -> dict[str, Any]:
        """Scores of the best weights, and the run's summary."""
        self.accelerator.wait_for_everyone()
        self.folder.load_best_into(self.model)
        self.display.testing(self.config.keep)
        parts: dict[str, Any] = self.model.parts
        outputs: list[Tensor] = []
        test = self.evaluate(self.task.test, outputs=outputs) if len(self.task.test) else {}
        self.test_outputs = self.loading.in_order(self.task.test, outputs)
        return {
            "model": self.experiment.model.label,
            "goal": self.task.goal,
            "summary": self.model.summary,
            # A checkpoint of an earlier version does not have them.
            "valid": self.position.best_scores or self.evaluate(self.task.valid),
            "test": test,
            "parts": {
                name: {split: self.evaluate(own, part) for split, own in self.task.held_out.items()}
                for name, part in parts.items()
            },
            "best_step": self.position.best_step,
            "steps": self.position.step,
            "stopped_early": self.position.step < self.schedule.steps(self.position),
            "seconds": round(self.position.seconds, 1),
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "paper": SCORES.get(self.experiment.name, self.task.paper),
        }

    # Ending

    @contextlib.contextmanager
    def _failing_if_singular(self, batch: Batch) -> Iterator[None]:
        """Treat a singular matrix, which training an LSSL may lead to, as an infinite loss."""
        try:
            yield
        except torch.linalg.LinAlgError as error:
            self._fail(f"a matrix cannot be inverted ({error})", batch)

    def _fail(self, what: str, batch: Batch | None = None) -> None:
        lr, bad = self.base_rates[0] * self.schedule.factor(self.position), first_bad(self.model, batch or {})
        raise Diverged(
            f"{what} at step {self.position.step} (learning rate {lr:.2g}); first bad: {bad}. {self.folder.kept()}. "
            "A smaller --optim.lr or --optim.clip 1 often helps"
        )

    def _on_signal(self, number: int, frame: Any) -> None:
        if self._interrupted and number == signal.SIGINT:
            raise KeyboardInterrupt  # a second Ctrl-C means now; others may come twice, from a shell and the system
        if not self._interrupted:
            name = "Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name
            self.display.say(f"{name}: stopping after this step (Ctrl-C again: at once)")
        self._interrupted = self._interrupted or number

    @property
    def main(self) -> bool:
        """Whether this is the main process, which writes."""
        return bool(self.accelerator.is_main_process)
