"""The training loop: what it computes, when it looks, and that nothing that stops it changes what comes out."""

import dataclasses
import itertools
import json
import math
import os
import re
import signal
import threading

import numpy as np
import pytest
import tiny
import torch
from tiny import LENGTH, fit, lines, make_experiment, make_run, make_task, run_cases, trace

from longwave.experiments import LoopConfig, OptimConfig
from longwave.layers.lssl import LSSLConfig
from longwave.models import SequenceModel, load_model
from longwave.tasks.autoregressive import TokenRows
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.sequences.data import from_arrays
from longwave.tasks.text.codecs import Bytes
from longwave.tasks.text.task import TextTask
from longwave.train import checkpoint, loop, signals
from longwave.train.display import Display, time_left
from longwave.train.loop import Diverged, Interrupted, TrainingError

# Four batches an epoch, two epochs, a validation every two batches: at steps 2, 4, 6 and 8.
SETTINGS = {
    "cosine, accumulation, clipping": {
        "optim": {"schedule": "cosine", "warmup": 2, "accumulate": 2, "clip": 0.5, "weight_decay": 0.01}
    },
    "plateau, workers, batch norm, tied dropout": {
        "model": {"norm": "batch", "tie_dropout": True},
        "optim": {"schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5, "lr": 0.3},
        "loop": {"workers": 2},
    },
    "mixed precision": {"optim": {"schedule": "constant", "precision": "bf16"}},
    "lamb, average of weights": {"optim": {"method": "lamb", "ema": 0.9}},
}
# Where a kill comes, and at which time that the place is reached.
KILLS = {
    "cosine, accumulation, clipping": [
        ("after a step", 1),  # before there is any checkpoint
        ("in a step", 5),
        ("after a step", 5),
        ("before a validation", 2),
        ("in a validation", 4),
        ("in the best weights", 2),
        ("between the best weights and their config", 2),
        ("half a line", 2),
        ("before a checkpoint", 1),
        ("before a checkpoint", 3),
        ("in a checkpoint", 1),
        ("in a checkpoint", 3),
        ("between the two moves of a checkpoint", 3),
        ("after a checkpoint", 2),
        ("after a checkpoint", 4),
        ("in the final scores", 1),
    ],
    "plateau, workers, batch norm, tied dropout": [
        ("after a step", 7),
        ("in a validation", 5),
        ("in a checkpoint", 2),
        ("half a line", 4),
    ],
    "mixed precision": [("after a step", 5)],
    "lamb, average of weights": [("after a step", 5), ("in a validation", 4), ("in a checkpoint", 3)],
}


def run(folder, task=None, resume=False, **settings):
    started = make_run(folder, make_experiment(**settings), task or make_task(), quiet=True)
    return started, fit(started, resume)


def differences(folder, truth):
    found = trace(folder)
    parts = {f"bits of {name}": found["bits"][name] == truth["bits"][name] for name in truth["bits"]}
    parts |= {name: found[name] == truth[name] for name in ("position", "metrics", "result")}
    return [name for name, same in parts.items() if not same]


# Resuming


@pytest.mark.parametrize("name", SETTINGS)
def test_a_killed_run_goes_on_to_the_bit(name, tmp_path):
    """SIGKILL, then resume: weights, optimiser, random states, best weights, metrics and scores as if never stopped."""
    settings, kills = SETTINGS[name], KILLS[name]
    cases = [{"folder": str(tmp_path / "never stopped"), "settings": settings}]
    for i, (place, at) in enumerate(kills):
        case = {"folder": str(tmp_path / f"killed {i}"), "settings": settings}
        cases += [case | {"strike": {"place": place, "at": at}}, case | {"resume": True}]
    answers = run_cases(cases)
    assert answers[0]["code"] == 0, answers[0]["stderr"]
    truth = trace(tmp_path / "never stopped")
    assert [line["step"] for line in truth["metrics"]] == [2, 4, 6, 8]
    failures = {}
    for i, kill in enumerate(kills):
        killed, resumed = answers[1 + 2 * i : 3 + 2 * i]
        assert killed["code"] == -signal.SIGKILL, (kill, killed["stderr"])
        assert resumed["code"] == 0, (kill, resumed["stderr"])
        if wrong := differences(tmp_path / f"killed {i}", truth):
            failures[kill] = wrong
    assert not failures


def test_a_run_killed_again_and_again_goes_on_to_the_bit(tmp_path):
    """Also when one of the checkpoints that it leaves is damaged, which it says."""
    settings = SETTINGS["cosine, accumulation, clipping"]
    never, often = ({"folder": str(tmp_path / name), "settings": settings} for name in ("never", "often"))
    strikes = [("after a step", 3), ("in a checkpoint", 1), ("after a step", 3), ("before a checkpoint", 1)]
    cases = [never] + [
        often | {"strike": {"place": place, "at": at}, "resume": i > 0} for i, (place, at) in enumerate(strikes)
    ]
    answers = run_cases([*cases, often | {"resume": True, "damage": True}])
    assert [answer["code"] for answer in answers] == [0, -9, -9, -9, -9, 0]
    assert "is damaged; resuming from the checkpoint before it" in answers[-1]["stderr"]
    assert differences(tmp_path / "often", trace(tmp_path / "never")) == []
    assert (tmp_path / "often" / "checkpoints" / checkpoint.DAMAGED).exists()


def test_a_run_on_augmented_examples_goes_on_to_the_bit(tmp_path):
    """A kill in the second epoch, whose examples are not those of the first."""
    settings = {"model": {"dropout": 0.0}, "loop": {"workers": 1}}
    never, killed = (
        {"folder": str(tmp_path / name), "settings": settings, "task": {"jitter": True}} for name in ("never", "killed")
    )
    strike = {"strike": {"place": "after a step", "at": 7}}
    answers = run_cases([never, killed | strike, killed | {"resume": True}])
    assert [answer["code"] for answer in answers] == [0, -9, 0]
    assert differences(tmp_path / "killed", trace(tmp_path / "never")) == []


def text_that_carries_its_state(rows):
    tokens = np.random.default_rng(0).integers(0, 11, 9 * 25, np.int32)
    split = TokenRows(tokens, 6, rows=rows)
    whole = split.uncut()
    return TextTask(
        name="text", train=split, valid=whole, test=whole, vocabulary=11, unit="word", codec=Bytes(), carries=True
    )


def test_a_run_that_carries_its_state_goes_on_to_the_bit(tmp_path):
    """Stopped in the middle of an epoch, where the next step begins with the states of the last one."""
    model = {"decoder": "sequence", "cutoffs": (4,)}
    tiny.assert_resumes_to_the_bit(tmp_path, text_that_carries_its_state(rows=9), **model)
    states = checkpoint.load(tmp_path / "never" / "checkpoints")[0]["carried"]
    assert states[0][0][0].shape[0] == 9


def test_rows_that_carry_their_state_are_trained_on_in_order_and_together(tmp_path):
    model = {"decoder": "sequence", "vocabulary": 11, "output_size": 11}
    experiment = make_experiment(model, optim={"accumulate": 2}, loop={"batch_size": 3, "epochs": 1})
    started = make_run(tmp_path, experiment, text_that_carries_its_state(rows=3), quiet=True)
    begun, seen, forward = [], [], started.module.forward

    def watched(batch, state=None):
        if started.module.training:
            seen.append(batch["x"][:, 0].tolist())
            begun.append(state is None)
        return forward(batch, state)

    started.module.forward = watched
    fit(started)
    assert begun[:6] == [True, True, False, False, False, False]  # two parts of a batch, each with its own state
    rows = started.task.train_at(0, 0).tokens.reshape(3, -1)
    shift = started.task.train_at(0, 0).start
    assert seen[0] + seen[1] == rows[:, shift].tolist()
    assert seen[2] + seen[3] == rows[:, (shift + 6) % rows.shape[1]].tolist()
    with pytest.raises(ValueError, match=r"carry_state: expected batches of all 9 rows \(--loop.batch-size 9\) in one"):
        make_run(tmp_path, experiment, text_that_carries_its_state(rows=9), quiet=True)


def test_every_epoch_asks_for_examples_of_its_own_with_the_seed_of_the_run(tmp_path):
    asked = []
    task = make_task()
    object.__setattr__(task, "train_at", lambda *which: asked.append(which) or task.train)
    run(tmp_path, task, loop={"epochs": 3, "seed": 5})
    assert asked == [(0, 5), (1, 5), (2, 5)]


def test_a_finished_run_may_be_resumed_and_stays_as_it_is(tmp_path):
    run(tmp_path)
    truth = trace(tmp_path)
    run(tmp_path, resume=True)
    assert differences(tmp_path, truth) == []


def test_a_result_is_compared_with_the_paper_s_score_of_the_experiment_else_of_the_task(tmp_path):
    task = make_task(paper={"mse": 1.0})
    for name, paper in (("tiny", {"mse": 1.0}), ("cifar-density", {"bits_per_dim": 2.92})):
        experiment = dataclasses.replace(make_experiment(), name=name)
        assert fit(make_run(tmp_path / name, experiment, task, quiet=True))["paper"] == paper


def test_resuming_without_a_whole_checkpoint_is_a_clear_error(tmp_path):
    run(tmp_path)
    for name in (checkpoint.LAST, checkpoint.PREVIOUS):
        tiny.damage(tmp_path / "checkpoints" / name)
    with pytest.raises(ValueError, match="all checkpoints are damaged"):
        run(tmp_path, resume=True)


def test_a_new_run_forgets_what_an_older_one_left(tmp_path):
    """Else a kill before its first checkpoint would resume the older one."""
    run(tmp_path)
    fresh = make_run(tmp_path, make_experiment(), make_task(), quiet=True)
    fresh._train = lambda: (_ for _ in ()).throw(RuntimeError("stopped"))
    with pytest.raises(RuntimeError, match="stopped"):
        fresh.fit(resume=False)
    assert checkpoint.load(tmp_path / "checkpoints") is None
    assert not (tmp_path / "metrics.jsonl").exists()


# Seeds


def test_same_seed_same_bits_and_another_seed_other_bits(tmp_path):
    torch.rand(7)  # what was drawn before does not matter
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        run(tmp_path / name, loop={"seed": seed})
    truth, other = trace(tmp_path / "one"), trace(tmp_path / "two")
    assert differences(tmp_path / "again", truth) == []
    assert other["metrics"] != truth["metrics"]
    assert other["bits"]["model"] != truth["bits"]["model"]


def test_no_more_workers_than_cores_are_started_and_a_note_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("longwave.train.loading._cores", lambda: 1)
    settings = make_experiment(loop={"workers": 100})
    assert make_run(tmp_path, settings, make_task()).loading.workers == 1
    assert "note: using 1 of 100 workers: one per core" in capsys.readouterr().err
    with pytest.raises(ValueError, match="workers: expected a number from 0 to 256, got 257"):
        make_experiment(loop={"workers": 257})


def test_workers_and_eval_batches_do_not_change_the_weights(tmp_path):
    run(tmp_path / "plain", loop={"epochs": 1})
    run(tmp_path / "workers", loop={"epochs": 1, "workers": 2})  # forks of this process, which is large
    run(tmp_path / "batches", loop={"epochs": 1, "eval_batch_size": 100})
    truth = trace(tmp_path / "plain")["bits"]
    assert trace(tmp_path / "workers")["bits"] == truth
    assert trace(tmp_path / "batches")["bits"]["model"] == truth["model"]


def test_every_epoch_has_an_order_of_its_own_and_every_example_once(tmp_path):
    started = make_run(tmp_path, make_experiment(), make_task(), quiet=True)
    orders = [[i for batch in started.loading.order(epoch) for i in batch] for epoch in range(4)]
    assert all(sorted(order) == list(range(14)) for order in orders)
    assert len({tuple(order) for order in orders}) == 4
    assert [len(batch) for batch in started.loading.order(0)] == [4, 4, 4, 2]


# Ctrl-C


def test_ctrl_c_saves_says_how_to_go_on_and_loses_nothing(tmp_path):
    """It reaches every process of the group, those that load data too."""
    cases = [{"folder": str(tmp_path / "never")}]
    strike = {"place": "after a step", "at": 5, "signals": ["SIGINT"]}
    folders = {workers: tmp_path / f"with {workers} workers" for workers in (0, 2)}
    for workers, folder in folders.items():
        case = {"folder": str(folder), "settings": {"loop": {"workers": workers}}}
        cases += [case | {"strike": strike}, case | {"resume": True}]
    answers = run_cases(cases)
    for folder, interrupted, resumed in zip(folders.values(), answers[1::2], answers[2::2], strict=True):
        assert interrupted["code"] == 130, interrupted["stderr"]
        assert interrupted["stderr"].count("stopping after this step") == 1  # not once more from each worker
        assert f"stopped at step 5; resume with:\n  longwave train --resume '{folder}'" in interrupted["stderr"]
        assert "resuming at step 5" in resumed["stderr"]
        assert differences(folder, trace(tmp_path / "never")) == []


def test_ctrl_c_reaches_no_worker_however_early_it_comes(tmp_path, monkeypatch):
    """Not even one that has not yet said that it ignores it."""
    monkeypatch.setattr(signals, "leave_to_the_main_process", lambda _: os.kill(os.getpid(), signal.SIGINT))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    run(tmp_path, loop={"epochs": 1, "workers": 1})
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


def test_ctrl_c_twice_or_during_the_final_scores_stops_at_once_and_loses_nothing(tmp_path):
    cases = [{"folder": str(tmp_path / "never")}]
    strikes = {"twice": ("after a step", 5, ["SIGINT"] * 2), "scores": ("in the final scores", 1, ["SIGINT"])}
    for name, (place, at, sent) in strikes.items():
        strike = {"place": place, "at": at, "signals": sent}
        cases += [{"folder": str(tmp_path / name), "strike": strike}, {"folder": str(tmp_path / name), "resume": True}]
    answers = run_cases(cases)
    assert [answer["code"] for answer in answers] == [0, 130, 0, 130, 0]
    assert "resuming at step 4" in answers[2]["stderr"]
    for name, answer in zip(strikes, answers[1::2], strict=True):
        assert "stopped; resume from the last checkpoint with:\n  longwave train --resume" in answer["stderr"]
        assert differences(tmp_path / name, trace(tmp_path / "never")) == []


def test_a_run_leaves_the_handler_of_ctrl_c_as_it_was(tmp_path):
    before = signal.getsignal(signal.SIGINT)
    run(tmp_path / "one")
    assert signal.getsignal(signal.SIGINT) is before
    own = lambda *_: None  # noqa: E731
    signal.signal(signal.SIGINT, own)
    try:
        run(tmp_path / "two")
        assert signal.getsignal(signal.SIGINT) is own
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_run_works_in_a_thread(tmp_path):
    """Where Python allows no signal handlers."""
    run(tmp_path / "main")
    thread = threading.Thread(target=run, args=(tmp_path / "thread",))
    thread.start()
    thread.join()
    assert differences(tmp_path / "thread", trace(tmp_path / "main")) == []


def test_an_interrupt_is_no_failure():
    assert not issubclass(Interrupted, TrainingError)


# Numbers that are not finite


def strike_before_step(started, at, change):
    step, calls = started.step, iter(range(1000))

    def struck(*arguments):
        if next(calls) == at:
            change()
        return step(*arguments)

    started.step = struck


def test_a_bad_weight_stops_the_run_by_name_and_keeps_the_last_good_checkpoint(tmp_path):
    started = make_run(tmp_path, make_experiment(), make_task(), quiet=True)

    def spoil():
        with torch.no_grad():
            started.model.blocks[1].mixer.log_dt[2] = math.nan

    strike_before_step(started, 5, spoil)
    message = (
        r"the loss is not finite at step 5 \(learning rate 0\.015\); first bad: blocks\.1\.mixer\.log_dt\. "
        rf"The last good checkpoint is kept in {tmp_path / 'checkpoints'}"
    )
    with pytest.raises(TrainingError, match=message):
        started.fit(resume=False)
    content, note = checkpoint.load(tmp_path / "checkpoints")
    assert note is None
    assert content["position"]["step"] == 4
    assert all(torch.isfinite(values).all() for values in content["model"].values())
    assert [line["step"] for line in lines(tmp_path)] == [2, 4]
    run(tmp_path, resume=True)  # and it goes on from there
    assert [line["step"] for line in lines(tmp_path)] == [2, 4, 6, 8]


def test_a_bad_weight_before_a_validation_never_reaches_a_checkpoint(tmp_path):
    started = make_run(tmp_path, make_experiment(), make_task(), quiet=True)
    validate = started._validate

    def spoiled(loss):
        if started.position.step == 6:
            with torch.no_grad():
                started.model.decoder.linear.bias.fill_(math.inf)
        validate(loss)

    started._validate = spoiled
    with pytest.raises(
        TrainingError, match=r"the validation score mse is not finite at step 6 .*first bad: decoder\.linear\.bias"
    ):
        started.fit(resume=False)
    assert checkpoint.load(tmp_path / "checkpoints")[0]["position"]["step"] == 4
    assert all(torch.isfinite(values).all() for values in SequenceModel.from_pretrained(tmp_path / "best").parameters())


def test_a_matrix_that_cannot_be_inverted_is_divergence(tmp_path):
    """I - dt/2 A of LSSL is singular at dt = 1 and A = 2 I, exactly."""
    experiment = make_experiment(model={"mixer": LSSLConfig(d_state=4)})
    started = make_run(tmp_path, experiment, make_task(), quiet=True)

    def spoil():
        with torch.no_grad():
            started.model.blocks[1].mixer.log_dt.zero_()
            started.model.blocks[1].mixer.A.copy_(2 * torch.eye(4).expand_as(started.model.blocks[1].mixer.A))

    strike_before_step(started, 5, spoil)
    with pytest.raises(Diverged, match=r"a matrix cannot be inverted \(.*\) at step 5 \(learning rate"):
        started.fit(resume=False)
    with pytest.raises(Diverged, match="a matrix cannot be inverted"):
        started.evaluate(started.task.valid)


def test_bad_data_is_told_from_bad_weights(tmp_path):
    task = make_task()
    task.train.x[3, 1, 0] = math.nan
    with pytest.raises(
        TrainingError,
        match=r"not finite at step 0 .*first bad: x of the batch, row \d+, step 1, so look at the data\. There was no",
    ):
        run(tmp_path, task, loop={"batch_size": 14})


def test_a_bad_gradient_is_named_if_weights_and_data_are_good(tmp_path):
    class Infinite(tiny.Tiny):
        def loss(self, output, batch):
            return super().loss(output, batch) * math.inf

    values = {field.name: getattr(make_task(), field.name) for field in dataclasses.fields(tiny.Tiny)}
    with pytest.raises(TrainingError, match=r"first bad: the gradient of encoder\.values\.weight"):
        run(tmp_path, Infinite(**values))


def test_weights_that_grew_beyond_use_are_named_though_they_are_finite(tmp_path):
    started = make_run(tmp_path, make_experiment(), make_task(), quiet=True)

    def spoil():
        with torch.no_grad():
            started.model.decoder.linear.weight.fill_(3e30)

    strike_before_step(started, 3, spoil)
    with pytest.raises(
        TrainingError, match=r"first bad: the gradient of .*the largest weight is 3e\+30 in decoder\.linear"
    ):
        started.fit(resume=False)


# When it looks, and when it stops


@pytest.mark.parametrize(
    ("validations", "steps"), [(1, [4, 8]), (2, [2, 4, 6, 8]), (3, [2, 3, 4, 6, 7, 8]), (9, list(range(1, 9)))]
)
def test_validations_are_evenly_spaced_and_the_last_ends_the_epoch(validations, steps, tmp_path):
    run(tmp_path, loop={"validations": validations})
    assert [line["step"] for line in lines(tmp_path)] == steps
    assert [line["epoch"] for line in lines(tmp_path)] == [step / 4 for step in steps]


@pytest.mark.parametrize(("epochs", "validations", "steps"), [(5, 0.5, [8, 16, 20]), (4, 0.3, [16]), (3, 0.1, [12])])
def test_validations_may_come_once_in_several_epochs_and_at_the_end(epochs, validations, steps, tmp_path):
    run(tmp_path, loop={"epochs": epochs, "validations": validations})
    assert [line["step"] for line in lines(tmp_path)] == steps


class Clock:
    """A training step takes 6 seconds and a validation 12."""

    def __init__(self, started):
        self.now = 0.0
        for name, seconds in (("step", 6.0), ("_validate", 12.0)):
            setattr(started, name, self._slow(getattr(started, name), seconds))

    def _slow(self, function, seconds):
        def run(*arguments):
            self.now += seconds
            return function(*arguments)

        return run


@pytest.mark.parametrize(("minutes", "steps"), [(1e-6, 10), (2.4, 12), (3.0, 15), (1e6, 20)])
def test_the_schedule_is_fitted_to_the_minutes(minutes, steps, tmp_path, monkeypatch):
    """Four batches and two validations an epoch take 48 seconds; ten steps are timed in any case."""
    experiment = make_experiment(optim={"schedule": "cosine"}, loop={"epochs": 5, "minutes": minutes})
    started = make_run(tmp_path, experiment, make_task(), quiet=True)
    clock = Clock(started)
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock.now)
    assert started.fit(resume=False)["steps"] == steps
    found = lines(tmp_path)
    assert found[-1]["step"] == steps  # it ends with a validation, and a learning rate of 0
    assert found[-1]["lr"] == pytest.approx(0, abs=1e-9)
    content, _ = checkpoint.load(tmp_path / "checkpoints")
    assert content["position"]["steps"] == steps
    assert content["position"]["seconds"] == 6 * steps


def test_the_warm_up_of_a_run_of_few_minutes_is_a_tenth_of_its_steps(tmp_path):
    experiment = make_experiment(optim={"schedule": "cosine", "warmup": 100}, loop={"epochs": 50, "minutes": 1.0})
    started = make_run(tmp_path, experiment, make_task(), quiet=True)
    factors = {}
    for steps in (None, 20, started.batches * 50):
        started.position.steps, started.position.step = steps, 1
        factors[steps] = started.schedule.factor(started.position)
    assert list(factors.values()) == [0.02, 1.0, 0.02]


def test_the_minutes_are_fitted_once_more_when_the_machine_is_no_longer_busy(tmp_path, monkeypatch):
    """Steps that take 6 seconds while the first ten are timed, and 3 from then on."""
    loops = {"epochs": 200, "validations": 0.01, "minutes": 30.0}
    experiment = make_experiment(optim={"schedule": "cosine", "warmup": 1000}, loop=loops)
    started = make_run(tmp_path, experiment, make_task(), quiet=True)
    started.step = lambda *_: 1.0  # hundreds of them: what they would do to the weights does not matter
    clock, rates = Clock(started), []
    slow = started.step

    def step(*arguments):
        clock.now -= 3 * (started.position.step >= 10)
        rates.append(started.schedule.factor(started.position))
        return slow(*arguments)

    started.step = step
    monkeypatch.setattr(loop.time, "perf_counter", lambda: clock.now)
    assert started.fit(resume=False)["seconds"] == pytest.approx(1800, rel=0.01)
    assert started.position.refit_step == 29  # a tenth of the steps that were expected at first
    # The warm-up ends where they were fitted again, and the learning rate falls from there on: no jump.
    assert rates[27:30] == pytest.approx([28 / 29, 1.0, 1.0], abs=1e-3)
    assert all(a >= b for a, b in itertools.pairwise(rates[29:]))


def test_minutes_that_suffice_change_nothing(tmp_path):
    run(tmp_path / "free", loop={"epochs": 4})
    run(tmp_path / "bounded", loop={"epochs": 4, "minutes": 1e6})
    truth = trace(tmp_path / "free")
    assert (
        differences(tmp_path / "bounded", truth | {"position": truth["position"] | {"steps": 16, "timed_step": 10}})
        == []
    )


STILL = {"optim": {"lr": 1e-30, "ssm_lr": 0.0, "schedule": "constant"}}  # no weight moves, no score gets better


def test_patience_ends_a_run_that_gets_no_better(tmp_path):
    _, result = run(tmp_path, **STILL, loop={"epochs": 50, "patience": 3})
    assert [line["step"] for line in lines(tmp_path)] == [2, 4, 6, 8]
    assert (result["steps"], result["stopped_early"]) == (8, True)
    assert result["best_step"] == 2
    _, again = run(tmp_path, resume=True, **STILL, loop={"epochs": 50, "patience": 3})
    assert again["steps"] == 8  # it stays at its end


def test_without_patience_a_run_goes_on_to_its_last_epoch(tmp_path):
    _, result = run(tmp_path, **STILL, loop={"epochs": 3})
    assert (result["steps"], result["stopped_early"]) == (12, False)


def test_a_plateau_lowers_the_learning_rate(tmp_path):
    optim = STILL["optim"] | {"schedule": "plateau", "plateau_patience": 1, "plateau_factor": 0.5}
    run(tmp_path, optim=optim, loop={"epochs": 3})
    assert [line["lr"] for line in lines(tmp_path)] == [1e-30, 1e-30, 5e-31, 5e-31, 2.5e-31, 2.5e-31]


def test_a_cosine_over_other_steps_than_the_run_s_does_not_reach_zero_or_stays_there(tmp_path):
    def factors(**optim):
        experiment = make_experiment(optim={"schedule": "cosine", "warmup": 2} | optim)
        started = make_run(tmp_path, experiment, make_task(), quiet=True)
        found = []
        for step in range(started.schedule.all_steps + 1):
            started.position.step = step
            found.append(started.schedule.factor(started.position))
        return found

    own = factors()
    steps = len(own) - 1
    assert factors(decay_steps=steps) == own
    assert 0 < factors(decay_steps=2 * steps)[-1] < 1
    half = factors(decay_steps=steps // 2)
    assert half[: steps // 2 + 1] != own[: steps // 2 + 1]
    assert half[steps // 2 :] == [0.0] * (steps + 1 - steps // 2)
    with pytest.raises(ValueError, match=r"^decay_steps: expected at least 1, got 0$"):
        make_experiment(optim={"decay_steps": 0})


def test_cosine_rises_during_the_warm_up_and_falls_to_zero(tmp_path):
    started = make_run(tmp_path, make_experiment(optim={"schedule": "cosine", "warmup": 2}), make_task(), quiet=True)
    factors = []
    for started.position.step in range(9):
        factors.append(started.schedule.factor(started.position))
    assert factors[:3] == [0.5, 1.0, 1.0]
    assert factors[2:] == sorted(factors[2:], reverse=True)
    assert factors[5] == pytest.approx(0.5)
    assert factors[8] == pytest.approx(0)


def test_the_average_of_the_weights_is_validated_kept_and_scored(tmp_path):
    """And the training is that without an average, to the bit."""
    plain, _ = run(tmp_path / "plain", loop={"keep": "last"})
    started = make_run(tmp_path / "run", make_experiment(optim={"ema": 0.5}, loop={"keep": "last"}), make_task(), True)
    named = dict(started.model.named_parameters())
    average = {name: p.detach().clone() for name, p in named.items()}
    step = started.step

    def step_and_average(*arguments):
        loss = step(*arguments)
        decay = min(0.5, (1 + started.position.step) / (10 + started.position.step))
        for name, p in named.items():
            average[name] = decay * average[name] + (1 - decay) * p.detach()
        return loss

    started.step = step_and_average
    result = fit(started)
    content, _ = checkpoint.load(tmp_path / "run" / "checkpoints")
    best = load_model(tmp_path / "run" / "best")
    for name, p in best.named_parameters():
        torch.testing.assert_close(p.detach(), average[name])
        assert torch.equal(p, content["average"][name])
    trained, _ = checkpoint.load(tmp_path / "plain" / "checkpoints")
    assert all(torch.equal(value, content["model"][name]) for name, value in trained["model"].items())
    plain.model.load_state_dict(best.state_dict())
    assert result["valid"]["mse"] == plain.evaluate(plain.task.valid)["mse"]
    assert lines(tmp_path / "run")[-1]["valid_mse"] == pytest.approx(result["valid"]["mse"])


def test_an_average_that_makes_no_sense_is_refused():
    for decay in (-0.1, 1.0):
        with pytest.raises(ValueError, match="ema: expected a number from 0"):
            OptimConfig(ema=decay)


@pytest.mark.parametrize("higher", [False, True])
def test_the_best_weights_are_those_of_the_best_score(higher, tmp_path):
    _, result = run(tmp_path, make_task(higher_is_better=higher), optim={"lr": 0.3, "schedule": "constant"})
    scores = {line["step"]: line["valid_mse"] for line in lines(tmp_path)}
    best = max if higher else min
    assert result["best_step"] == best(scores, key=scores.get)
    assert result["valid"]["mse"] == pytest.approx(best(scores.values()), rel=1e-6)


def test_the_last_weights_are_kept_if_that_is_asked_for(tmp_path):
    """Whatever their score: here they get worse, as the score is an error that is wanted large."""
    _, result = run(tmp_path, make_task(higher_is_better=True), loop={"keep": "last"}, optim={"lr": 0.1})
    scores = [line["valid_mse"] for line in lines(tmp_path)]
    assert scores[-1] < max(scores)
    assert (result["best_step"], result["valid"]["mse"]) == (8, pytest.approx(scores[-1], rel=1e-6))
    patient, _ = run(
        tmp_path / "b", make_task(higher_is_better=True), loop={"keep": "last", "patience": 2, "epochs": 9}
    )
    assert patient.position.step < 36  # a standstill is one of the best score all the same


@pytest.fixture
def easy_set():
    """Two classes that a model tells apart after a few steps, and then ever more surely."""
    generator = torch.Generator().manual_seed(3)
    y = torch.arange(40) % 2
    x = torch.randn(40, LENGTH, 2, generator=generator) + 2 * y[:, None, None]
    return ClassifyConfig().on(from_arrays(x, y))


def test_equal_scores_are_decided_by_the_validation_loss(easy_set, tmp_path):
    settings = {"model": {"output_size": 2}, "loop": {"epochs": 12, "validations": 1, "batch_size": 8}}
    _, result = run(tmp_path, easy_set, **settings)
    last = {line["step"]: (-line["valid_accuracy"], line["valid_loss"]) for line in lines(tmp_path)}
    tied = [step for step, (accuracy, _) in last.items() if accuracy == -1.0]
    assert len(tied) > 3  # else nothing was to be decided
    assert result["best_step"] == min(last, key=last.get) != tied[0]
    assert result["valid"]["loss"] == pytest.approx(min(loss for _, loss in last.values()), rel=1e-5)


def test_a_run_at_its_best_score_is_not_at_a_standstill_while_its_loss_falls(tmp_path):
    """Neither patience nor the plateau of the learning rate counts a validation whose loss fell."""
    optim = {"lr": 0.5, "schedule": "plateau", "plateau_patience": 0, "plateau_factor": 0.5}
    experiment = make_experiment(optim=optim, loop={"epochs": 50, "validations": 1, "patience": 2})
    started = make_run(tmp_path, experiment, make_task(goal="accuracy", higher_is_better=True), quiet=True)
    losses = [0.5, 0.4, 0.3, 0.3, 0.2, 0.2, 0.25]
    scores = iter([{"accuracy": 1.0, "loss": loss} for loss in losses])
    started.evaluate = lambda *_, **__: next(scores, {"accuracy": 1.0, "loss": 1.0})
    result = started.fit(resume=False)
    assert (result["best_step"], result["steps"]) == (4 * 5, 4 * len(losses))
    assert [line["lr"] for line in lines(tmp_path)] == [0.5, 0.5, 0.5, 0.25, 0.25, 0.125, 0.0625]


# What a step computes


@pytest.fixture
def _in_float64():
    torch.set_default_dtype(torch.float64)


def gradients_of_a_step(tmp_path, task, **optim):
    """The gradients that the optimiser gets to see."""
    started = make_run(tmp_path, make_experiment({"dropout": 0.0}, optim), task, quiet=True)
    (batch, is_ours), *_ = started.loading.load(task.train, [list(range(7))])
    started.optimizer.zero_grad = lambda: None
    started.step(batch, is_ours)
    return {name: parameter.grad for name, parameter in started.model.named_parameters()}


@pytest.mark.usefixtures("_in_float64")
@pytest.mark.parametrize("accumulate", [2, 3, 7, 100])
def test_accumulation_gives_the_gradient_of_the_whole_batch(accumulate, tmp_path):
    task = make_task(dtype=torch.float64)
    whole = gradients_of_a_step(tmp_path, task)
    parts = gradients_of_a_step(tmp_path, task, accumulate=accumulate)
    assert max(grad.abs().max() for grad in whole.values()) > 1e-3
    torch.testing.assert_close(parts, whole, rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("_in_float64")
@pytest.mark.parametrize("accumulate", [1, 2])
def test_clipping_bounds_the_norm_of_the_whole_gradient(accumulate, tmp_path):
    task = make_task(dtype=torch.float64)
    free = gradients_of_a_step(tmp_path, task)
    clipped = gradients_of_a_step(tmp_path, task, clip=1e-3, accumulate=accumulate)
    norm = torch.stack([grad.square().sum() for grad in free.values()]).sum().sqrt()
    assert norm > 1e-2
    torch.testing.assert_close(clipped, {n: grad * (1e-3 / norm) for n, grad in free.items()}, rtol=1e-4, atol=1e-12)
    assert gradients_of_a_step(tmp_path, task, clip=1e3)["decoder.linear.bias"].equal(free["decoder.linear.bias"])


@pytest.mark.usefixtures("_in_float64")
def test_scores_do_not_depend_on_the_eval_batch_size(tmp_path):
    task = make_task(valid=7, dtype=torch.float64)
    scores = []
    for size in (1, 2, 3, 7, 100):
        started = make_run(tmp_path, make_experiment(loop={"eval_batch_size": size}), task, quiet=True)
        scores.append(started.evaluate(task.valid))
    with torch.no_grad():
        error = started.model.eval()(task.valid.x)[0] - task.valid.y
    truth = {"mse": error.square().mean().item(), "mae": error.abs().mean().item()}
    assert all(found == pytest.approx(truth, rel=1e-12) for found in scores)


def test_evaluation_draws_no_random_numbers_and_changes_no_weights(tmp_path):
    started = make_run(tmp_path, make_experiment({"norm": "batch"}), make_task(), quiet=True)
    before, random = tiny.bits(started.model.state_dict()), torch.get_rng_state()
    started.evaluate(started.task.valid)
    assert tiny.bits(started.model.state_dict()) == before
    assert torch.equal(torch.get_rng_state(), random)


# What a person sees


def test_a_terminal_shows_epoch_step_loss_score_and_time_left(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with Display(False, batches=4, epochs=2, goal="mse") as display:
        display.validated(step=4, loss=0.5, score=0.25, better=True)
        display.step(epoch=1, batch=2, loss=0.125, factor=1.0)
        display.live.refresh()
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "epoch  1.00  step      4  loss 0.5000  validation mse 0.2500  best\n" in shown  # a line that stays
    assert re.search(r"epoch 2/2 ━+╸?╺?━+ 6/8 loss 0\.1250  mse 0\.2500 (\d+:\d\d:\d\d|-:--:--)", shown)


def test_elsewhere_there_is_a_plain_line_for_each_validation(tmp_path, capsys):
    make_run(tmp_path, make_experiment(), make_task()).fit(resume=False)
    captured = capsys.readouterr()
    assert captured.out == ""
    line = r"epoch  \d\.\d0  step      \d  loss \d\.\d{4}  validation mse \d\.\d{4}(  best)?\n"
    assert re.fullmatch(f"({line}){{4}}scoring the best weights\n", captured.err)


def test_a_quiet_run_says_nothing(tmp_path, capsys):
    run(tmp_path)
    assert capsys.readouterr() == ("", "")


def test_brackets_in_a_folder_name_are_shown_as_they_are(capsys):
    Display(False, 1, 1, "mse").say("going on in runs/[bold]x")
    assert capsys.readouterr().err == "going on in runs/[bold]x\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "less than a minute left"),
        (29, "less than a minute left"),
        (60, "1 minute left"),
        (100, "2 minutes left"),
        (119 * 60, "119 minutes left"),
        (120 * 60, "2 hours left"),
        (200 * 3600, "200 hours left"),
    ],
)
def test_the_time_left_is_said_as_a_person_would(seconds, words):
    assert time_left(seconds) == words


# The folder, and mistakes


def test_a_run_leaves_its_files_and_nothing_half_written(tmp_path):
    _, result = run(tmp_path)
    files = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())
    assert files == [
        "best/config.json",
        "best/model.safetensors",
        "checkpoints/last.ckpt",
        "checkpoints/previous.ckpt",
        "metrics.jsonl",
        "result.json",
    ]
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert set(lines(tmp_path)[0]) == {
        *("step", "epoch", "loss", "lr"),
        *("train_mse", "train_mae", "valid_mse", "valid_mae"),
    }


def test_what_training_sees_is_logged_as_the_mean_over_all_its_examples(tmp_path):
    """Of weights that do not move, without dropout, it is the score of the training set; batches are of two sizes."""
    still = {"lr": 0.0, "ssm_lr": 0.0, "schedule": "constant"}
    started, _ = run(tmp_path, model={"dropout": 0.0}, optim=still, loop={"validations": 1, "epochs": 1})
    expected = started.evaluate(started.task.train_at(0, 0))
    (line,) = lines(tmp_path)
    assert line["train_mse"] == pytest.approx(expected["mse"], rel=1e-5)  # sums of float32
    assert line["train_mae"] == pytest.approx(expected["mae"], rel=1e-5)


@pytest.mark.parametrize(("part", "name"), [("train", "training"), ("valid", "validation")])
def test_an_empty_part_is_refused_before_training(part, name, tmp_path):
    with pytest.raises(TrainingError, match=f"task tiny: the {name} set is empty"):
        run(tmp_path, make_task(**{part: 0}))


@pytest.mark.parametrize(
    ("kind", "setting", "least"),
    [
        (LoopConfig, "epochs", 1),
        (LoopConfig, "batch_size", 1),
        (LoopConfig, "eval_batch_size", 1),
        (LoopConfig, "bucket", 0),
        (LoopConfig, "min_steps", 0),
        (LoopConfig, "patience", 0),
        (LoopConfig, "workers", 0),
        (OptimConfig, "accumulate", 1),
        (OptimConfig, "warmup", 0),
        (OptimConfig, "plateau_patience", 0),
        (OptimConfig, "clip", 0),
    ],
)
def test_settings_below_their_least_value_are_refused(kind, setting, least):
    kind(**{setting: least})
    with pytest.raises(ValueError, match=f"{setting}: expected at least {least}, got {least - 1}"):
        kind(**{setting: least - 1})


def test_runs_of_different_precision_follow_each_other_in_one_process(tmp_path):
    run(tmp_path / "before")
    run(tmp_path / "half", optim={"precision": "bf16"})
    run(tmp_path / "after")
    truth = trace(tmp_path / "before")
    assert differences(tmp_path / "after", truth) == []
    assert "bits of model" in differences(tmp_path / "half", truth)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_half_precision_without_a_gpu_is_refused_rather_than_ignored(tmp_path):
    with pytest.raises(ValueError, match="precision: fp16 needs a GPU"):
        run(tmp_path, optim={"precision": "fp16"})


@pytest.mark.slow
def test_tensorboard_gets_every_line(tmp_path):
    (answer,) = run_cases([{"folder": str(tmp_path / "run"), "settings": {"loop": {"tracker": "tensorboard"}}}])
    assert answer["code"] == 0, answer["stderr"]
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "run" / "tiny")).Reload()
    assert [event.step for event in events.Scalars("valid_mse")] == [2, 4, 6, 8]
