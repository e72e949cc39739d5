"""A linear map that was solved, and a deep model that corrects it."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from longwave.experiments import Experiment, LoopConfig, OptimConfig
from longwave.experiments.prepared import prepare_on
from longwave.layers import S4Config, S4DConfig
from longwave.models import Forecaster, ForecasterConfig, LinearSolution, SequenceConfig, Spec, load_model
from longwave.models.forecaster import window_shift
from longwave.tasks.forecast.baselines import Forecast, evaluate, fit
from longwave.tasks.forecast.series import Series
from longwave.tasks.forecast.task import ForecastConfig, forecast, make_task
from longwave.tasks.forecast.windows import ForecastData
from longwave.train.folder import RunFolder
from longwave.train.loop import Interrupted, Run
from longwave.train.optim import param_groups

CONTEXT, HORIZON = 14, 6
SHIFTS = ["none", "last", "mean"]
TINY = ForecasterConfig(d_model=4, n_layers=1, mixer=S4Config(d_state=4), context=CONTEXT, horizon=HORIZON)


@pytest.fixture
def task():
    values = np.random.default_rng(0).normal(size=(300, 3)).cumsum(axis=0)
    times = np.datetime64("2020-01-01T00:00:00") + np.arange(300) * np.timedelta64(3600, "s")
    series = Series(values, ("a", "b", "c"), 2, times, np.timedelta64(3600, "s"))
    return make_task(ForecastData("made", series, (200, 250, 300), "made"), CONTEXT, HORIZON)


def make(shift="last", **settings):
    torch.manual_seed(0)
    return Forecaster(replace(TINY, shift=shift, **settings))


def trained(model):
    """A model whose every weight has moved."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def start(task, shift, **settings):
    config = replace(TINY, shift=shift, **settings).resolve(task.spec)
    torch.manual_seed(0)
    model = config.build().eval()
    assert config.prepare(model, task.spec)
    return model


@pytest.mark.parametrize(("shift", "name"), [("last", "nlinear"), ("none", "dlinear")])
def test_a_new_run_starts_at_the_linear_baseline(task, shift, name):
    """To the rounding of float32. Without a shift the start may also be another ridge, if that is better."""
    model, batch = start(task, shift), task.test.batch(range(len(task.test)))
    with torch.no_grad():
        y = model(batch["x"], time=batch["time"])[0]
    solution, baseline = task.linear(shift), fit(name, task)
    if torch.equal(solution.weight, torch.from_numpy(baseline.weight)):
        torch.testing.assert_close(y.double(), baseline(batch["x"]), rtol=0, atol=5e-6)
    else:
        assert shift == "none"
    expected = solution.weight @ batch["x"][:, :CONTEXT].double() + solution.bias[:, None]
    torch.testing.assert_close(y.double(), expected, rtol=0, atol=5e-6)


@pytest.mark.parametrize("shift", ["last", "mean"])
def test_a_start_with_reversion_is_the_mean_of_two_solutions(task, shift):
    model, batch = start(task, shift, reversion=0.3), task.test.batch(range(len(task.test)))
    with torch.no_grad():
        y, one, two = (m(batch["x"], time=batch["time"])[0] for m in (model, start(task, shift), start(task, "none")))
    torch.testing.assert_close(y, 0.7 * one + 0.3 * two, rtol=0, atol=1e-5)


@pytest.mark.parametrize("layers", [0, 1])
def test_a_trained_forecast_is_the_mean_of_the_start_and_of_what_was_trained(task, layers):
    """In the shares of `trust`; while it trains, the whole counts."""
    batch = task.test.batch(range(9))
    none, some, whole = (
        trained(start(task, "last", trust=trust, n_layers=layers, dropout=0.0)) for trust in (0, 0.3, 1)
    )
    with torch.no_grad():
        y = [m(batch["x"], time=batch["time"])[0] for m in (none, some, whole)]
        y.append(some.train()(batch["x"], time=batch["time"])[0])
    torch.testing.assert_close(y[1], 0.7 * y[0] + 0.3 * y[2], rtol=0, atol=1e-5)
    torch.testing.assert_close(y[3], y[2], rtol=0, atol=1e-5)
    torch.testing.assert_close(y[0].double(), fit("nlinear", task)(batch["x"]), rtol=0, atol=5e-6)
    assert (y[2] - y[0]).abs().max() > 0.1


def test_linear_map_and_last_layer_are_trained_from_the_first_step_and_the_rest_from_the_second(task):
    model, batch = start(task, "mean").train(), task.train.batch(range(20))
    optimizer = torch.optim.SGD(param_groups(model, lr=0.1))
    for step in range(2):
        optimizer.zero_grad()
        (model(batch["x"], time=batch["time"])[0] - batch["y"]).square().mean().backward()
        moved = {name for name, p in model.named_parameters() if p.grad is not None and bool(p.grad.any())}
        assert {"linear.change", "linear.offset", "correction.decoder.linear.weight"} <= moved
        assert ("correction.encoder.values.weight" in moved) == (step == 1)
        optimizer.step()


def test_a_step_of_adam_moves_the_forecast_by_no_more_than_its_rate():
    model, x = make(n_layers=0), torch.randn(1, CONTEXT + HORIZON, 1)
    before = model(x)[0].detach()
    optimizer = torch.optim.Adam([model.linear.change], lr=0.01)
    model(x)[0].sum().backward()
    optimizer.step()
    size = window_shift(x[:, :CONTEXT], "last")
    moved = (model(x)[0] - before).abs().max()
    assert 0.009 * (x[:, :CONTEXT] - size).abs().mean() < moved < 0.011 * (x[:, :CONTEXT] - size).abs().mean()


@pytest.mark.parametrize("shift", ["last", "mean"])
def test_a_shifted_forecast_moves_with_the_level_of_its_window(shift):
    model, x = trained(make(shift)), torch.randn(3, CONTEXT + HORIZON, 1)
    torch.testing.assert_close(model(x + 7)[0], model(x)[0] + 7, rtol=0, atol=1e-4)
    fixed = trained(make("none"))
    assert ((fixed(x + 7)[0] - fixed(x)[0] - 7).abs() > 0.1).any()


@pytest.mark.parametrize("shift", SHIFTS)
def test_what_stands_in_the_horizon_is_not_read(shift):
    model, x = trained(make(shift)), torch.randn(3, CONTEXT + HORIZON, 1)
    other = x.clone()
    other[:, CONTEXT:] = float("nan")
    torch.testing.assert_close(model(other)[0], model(x)[0], rtol=0, atol=0)


def test_without_layers_it_is_the_linear_map_alone():
    model = make(n_layers=0)
    assert {name for name, _ in model.named_parameters()} == {"linear.change", "linear.offset"}
    assert (model.config.label, TINY.label) == ("linear", "linear + S4")


def test_the_parts_that_are_scored_are_named_after_the_layer():
    parts = make(trust=None, mixer=S4DConfig(d_state=4)).parts
    assert list(parts) == ["without S4D", "S4D's correction in full"]
    assert list(make(trust=None).parts) == ["without S4", "S4's correction in full"]
    assert make().parts == make(trust=None, n_layers=0).parts == {}


def test_a_saved_model_comes_back_with_its_start(tmp_path, task):
    model = trained(start(task, "none"))
    model.save_pretrained(tmp_path)
    batch = task.test.batch([0, 1])
    loaded = load_model(tmp_path).eval()
    torch.testing.assert_close(loaded(batch["x"], time=batch["time"]), model(batch["x"], time=batch["time"]))


def test_independent_columns_are_series_of_their_own(task):
    task = replace(task, independent=True)
    model = trained(start(task, "last"))
    batch = task.valid.batch(range(9))
    together = forecast(model, batch, True, HORIZON)
    for column in range(3):
        alone = model(batch["x"][..., column : column + 1], time=batch["time"])[0]
        torch.testing.assert_close(together[..., column : column + 1], alone, rtol=1e-5, atol=1e-6)
    mixed = trained(start(replace(task, independent=False), "last"))
    other = batch | {"x": batch["x"].clone()}
    other["x"][..., 0] += torch.randn(CONTEXT + HORIZON)
    for one, is_independent in ((model, True), (mixed, False)):
        changed = forecast(one, other, is_independent, HORIZON) - forecast(one, batch, is_independent, HORIZON)
        assert bool((changed[..., 1:].abs() > 1e-5).any()) != is_independent


@pytest.mark.parametrize("rows", [1, 20, 10_000])
def test_how_many_columns_are_computed_at_once_does_not_matter(task, rows, monkeypatch):
    model, batch = trained(start(replace(task, independent=True), "mean")), task.valid.batch(range(9))
    expected = forecast(model, batch, True, HORIZON)
    monkeypatch.setattr("longwave.tasks.forecast.task.ROWS_AT_ONCE", rows)
    torch.testing.assert_close(forecast(model, batch, True, HORIZON), expected, rtol=1e-5, atol=1e-6)


def test_a_run_is_scored_at_its_start_and_resumes_with_it(task, tmp_path):
    """Of the best weights the start is one: a run that only made it worse ends with it."""
    task = replace(task, independent=True, train=replace(task.train, single=True))
    for lr, folder in ((10.0, tmp_path / "wild"), (0.001, tmp_path / "tame")):
        model = replace(TINY, shift="auto")
        experiment = Experiment(
            "made", ForecastConfig(), model, OptimConfig(lr=lr), LoopConfig(epochs=1, batch_size=100)
        )
        prepared = prepare_on(experiment, task)
        run_folder = RunFolder.create(folder, prepared, None)
        run_folder.write_config({})
        result = Run(run_folder, prepared, quiet=True).fit(resume=False)
        first, *_ = run_folder.metrics()
        assert first["step"] == 0
        solution = task.linear("auto", None)
        linear = Forecast(solution.weight.numpy(), solution.bias.numpy())
        assert first["valid_mse"] == pytest.approx(evaluate(linear, task, task.valid)["mse"], rel=1e-4)
        assert result["valid"]["mse"] <= first["valid_mse"] * (1 + 1e-6)
        stored = json.loads((folder / "config.json").read_text())["experiment"]["model"]
        assert (stored["shift"], stored["reversion"]) == ("auto", solution.reversion)
        if lr == 10:
            assert result["best_step"] == 0
            assert Run(run_folder, prepared, quiet=True).fit(resume=True)["test"] == result["test"]


def test_a_run_stopped_before_its_first_step_goes_on_as_if_it_had_not(task, tmp_path, monkeypatch):
    model, loop = replace(TINY, shift="last"), LoopConfig(epochs=1, batch_size=100)
    prepared = prepare_on(Experiment("made", ForecastConfig(), model, OptimConfig(), loop), task)
    lines = {}
    for name in ("whole", "stopped"):
        folder = RunFolder.create(tmp_path / name, prepared, None)
        folder.write_config({})
        if name == "stopped":
            with monkeypatch.context() as patch:
                patch.setattr(Run, "step", _interrupt)
                with pytest.raises(Interrupted):
                    Run(folder, prepared, quiet=True).fit(resume=False)
            assert [line["step"] for line in folder.metrics()] == [0]
        Run(folder, prepared, quiet=True).fit(resume=name == "stopped")
        lines[name] = [{k: v for k, v in line.items() if k != "seconds"} for line in folder.metrics()]
    assert lines["whole"] == lines["stopped"]


def _interrupt(*_):
    raise KeyboardInterrupt


def test_the_linear_map_stays_in_single_precision_under_autocast(task):
    model, batch = start(task, "last", n_layers=0), task.test.batch([0, 1])
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        y = model(batch["x"], time=batch["time"])[0]
    torch.testing.assert_close(y.double(), fit("nlinear", task)(batch["x"]), rtol=0, atol=5e-6)


def test_auto_takes_the_reversion_that_the_task_suggests():
    def linear(shift, reversion):
        share = 0.25 if reversion is None else reversion
        return LinearSolution(torch.zeros(HORIZON, CONTEXT), torch.zeros(HORIZON), share)

    spec = Spec(1, 1, horizon=HORIZON, length=CONTEXT + HORIZON, linear=linear)
    for shift, given, expected in (
        ("auto", None, 0.25),
        ("auto", 0.5, 0.5),
        ("none", None, 0.0),
        ("last", 0.5, 0.5),
    ):
        found = replace(TINY, shift=shift, reversion=given).resolve(spec)
        assert (found.shift, found.reversion) == (shift, expected)
    assert replace(TINY, shift="auto").resolve(replace(spec, linear=None)).reversion == 0


def test_unfit_tasks_settings_and_inputs_are_refused():
    for spec in (Spec(1, 1), Spec(2, 1, horizon=3, length=9), Spec(1, 1, horizon=3)):
        with pytest.raises(ValueError, match="model: a Forecaster needs a task that forecasts its input columns"):
            TINY.resolve(spec)
    with pytest.raises(ValueError, match="shift: expected one of auto, combined, none, last, mean, got 'first'"):
        replace(TINY, shift="first").build()
    for name in ("reversion", "trust"):
        with pytest.raises(ValueError, match=f"{name}: expected a share from 0 to 1, got 1.5"):
            make(**{name: 1.5})
    with pytest.raises(ValueError, match="context: expected at least 1, got 0"):
        make(context=0)
    model, x = make(), torch.zeros(2, CONTEXT + HORIZON, 1)
    with pytest.raises(ValueError, match=r"x: expected \(B, 20, 1\), got \(2, 19, 1\)"):
        model(x[:, 1:])
    for name in ("state", "lengths"):
        with pytest.raises(ValueError, match=f"{name}: a Forecaster takes whole windows"):
            model(x, **{name: torch.tensor([20, 20])})


def test_other_models_start_as_they_are(task):
    model = SequenceConfig(d_model=4, n_layers=1).build()
    before = {name: values.clone() for name, values in model.state_dict().items()}
    assert not model.config.prepare(model, task.spec)
    torch.testing.assert_close(model.state_dict(), before, rtol=0, atol=0)
