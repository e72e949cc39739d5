"""Files of models and runs, run by their own runtimes, and what `longwave export` says."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from command import call
from dense import ROOT, run_python
from torch import nn

import longwave
from longwave import S4Config, S4DConfig, SequenceModel
from longwave.exporting import graphs
from longwave.tasks.forecast.task import forecast

pytestmark = pytest.mark.skipif(find_spec("onnxscript") is None, reason="the extra onnx is not installed")

LENGTH, BOUND = 512, 2e-6


def session(path):
    import onnxruntime as ort  # half a second, which processes that run other tests need not wait for

    return ort.InferenceSession(path, providers=["CPUExecutionProvider"])


def metadata_of(path):
    """What the file itself says, which is what the JSON beside it says."""
    found = json.loads(session(path).get_modelmeta().custom_metadata_map["longwave"])
    assert found == json.loads(Path(path).with_suffix(".json").read_text())
    return found


def stream(path, x):
    """y of x (B, L, ...) from a file with a state, as a user of onnxruntime would write it."""
    inputs = {one.name: one for one in session(path).get_inputs()}
    is_step = len(inputs["x"].shape) == x.ndim - 1
    T = 1 if is_step else inputs["x"].shape[1]
    dtypes = {"tensor(float)": np.float32, "tensor(double)": np.float64}
    state = {
        name: np.zeros([len(x) if size == "batch" else size for size in one.shape], dtypes[one.type])
        for name, one in inputs.items()
        if name != "x"
    }
    run, found = session(path), []
    for k in range(0, x.shape[1], T):
        y, *after = run.run(None, {"x": x[:, k] if is_step else x[:, k : k + T], **state})
        state = dict(zip(state, after, strict=True))
        found.append(y[:, None] if is_step else y)
    return np.concatenate(found, axis=1)


def error(value, true):
    assert value.shape == true.shape
    return np.abs(value - true).max() / np.abs(true).max()


@pytest.fixture
def model():
    """Two layers with all that a block may have, an output at every step."""
    torch.manual_seed(0)
    settings = {"norm": "batch", "feed_forward": 12, "input_size": 3, "output_size": 5, "decoder": "sequence"}
    model = SequenceModel(d_model=8, n_layers=2, mixer=S4Config(d_state=8), **settings).eval()
    for module in model.modules():
        if hasattr(module, "running_mean"):
            nn.init.normal_(module.running_mean)
            nn.init.uniform_(module.running_var, 0.5, 2)
    return model


@torch.no_grad()
def outputs(model, x):
    return model(torch.from_numpy(x))[0].numpy()


@pytest.mark.parametrize(
    ("form", "length"),
    [("step", None), ("blocks", 32), ("whole", LENGTH)],
)
def test_a_file_equals_the_convolution_for_every_batch(model, form, length):
    """Whole sequences by transforms; short ones, of the runs below, by the sum itself."""
    found = longwave.export(model, "m.onnx", form=form, length=length)
    assert found.difference <= 1e-5 * max(1, found.largest)
    assert metadata_of("m.onnx") == found.metadata
    for batch in (1, 3, 5):
        x = np.random.default_rng(batch).standard_normal((batch, LENGTH, 3), np.float32)
        y = session("m.onnx").run(None, {"x": x})[0] if form == "whole" else stream("m.onnx", x)
        assert error(y, outputs(model, x)) < BOUND
        if form == "whole":
            short = x[:, : 100 + batch]
            assert error(session("m.onnx").run(None, {"x": short})[0], outputs(model, short)) < BOUND


def test_a_stream_gives_the_mean_over_all_steps_so_far():
    """Also of S4D, and with a sum that does not outgrow its numbers."""
    torch.manual_seed(0)
    model = SequenceModel(d_model=8, n_layers=1, mixer=S4DConfig(d_state=8), vocabulary=7, output_size=2).eval()
    longwave.export(model, "m.onnx", form="blocks", length=64)
    x = np.random.default_rng(0).integers(0, 7, (2, 128))
    expected = longwave.stream(model, batch=2).push(torch.from_numpy(x)).numpy()
    assert error(stream("m.onnx", x), expected) < BOUND
    types = {one.name: one.type for one in session("m.onnx").get_inputs()}
    assert types["total"] == "tensor(double)"
    assert types["x"] == "tensor(int64)"


def test_a_pt2_file_runs_without_longwave(model):
    longwave.export(model, "m.pt2", form="blocks", to="pt2", length=32)
    x = torch.randn(3, 64, 3)
    np.save("x.npy", x.numpy())
    code = """
import json, sys, numpy as np, torch
about = {"longwave.json": ""}
run = torch.export.load("m.pt2", extra_files=about).module()
x, state, found = torch.from_numpy(np.load("x.npy")), torch.zeros(2, 3, 8, 8), []
for block in x.split(32, dim=1):
    y, state = run(x=block, state=state)
    found.append(y.detach())
assert "longwave" not in sys.modules
np.save("y.npy", torch.cat(found, dim=1).numpy())
print(json.loads(about["longwave.json"])["form"])
"""
    result = run_python(code, cwd=Path.cwd(), PYTHONWARNINGS="ignore")
    assert result.stdout == "blocks\n", result.stderr
    assert error(np.load("y.npy"), outputs(model, x.numpy())) < BOUND


def test_a_file_that_differs_from_its_model_is_not_kept(model, monkeypatch):
    monkeypatch.setattr(graphs, "Steps", lambda layer: Wrong(layer))
    with pytest.raises(ValueError, match=r"m\.pt2: not written, because its outputs differ .* by 0?\.?\d+"):
        longwave.export(model, "m.pt2", form="step", to="pt2")
    assert not list(Path().iterdir())


class Wrong(graphs.Steps):
    """A step with an output map that is off by 1 in 1,000."""

    def __init__(self, layer):
        super().__init__(layer)
        self.C *= 1.001


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"form": "blocks", "length": 48}, "length: expected a power of two, the steps of a block"),
        ({"form": "step", "length": 8}, "length: form step takes one step at a time"),
        ({"form": "whole"}, "length: expected the steps of the longest sequence"),
        ({"form": "whole", "length": 1}, "length: .* at least 2, got 1"),
        ({"form": "all"}, "form: expected one of step, blocks, whole"),
        ({"to": "tflite"}, "to: expected one of onnx, pt2"),
        ({"form": "step", "out": "no/m.onnx"}, "out: no: no such folder"),
        ({"form": "step", "out": "m.json"}, "out: expected the name of a file in the format onnx"),
        ({"length": 9, "level": [80]}, "level: intervals are for forecasts"),
    ],
)
def test_what_cannot_be_exported_is_refused(model, wanted, message):
    with pytest.raises(ValueError, match=message):
        longwave.export(model, **{"out": "m.onnx", **wanted})
    assert not list(Path().iterdir())


def test_models_without_a_state_are_refused_as_steps():
    two_sided = SequenceModel(d_model=4, n_layers=1, mixer=S4Config(d_state=4, bidirectional=True))
    with pytest.raises(ValueError, match=r"form: the model is bidirectional.* expected --form whole"):
        longwave.export(two_sided, form="step")
    with pytest.raises(ValueError, match=r"mixer: expected S4 or S4D layers, .* got Recurrent"):
        longwave.export(SequenceModel(d_model=4, n_layers=1, mixer="lstm"), form="step")


def test_a_missing_package_is_named(model, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"onnxscript is not installed; .* pip install 'longwave\[onnx\]'"):
        longwave.export(model, form="step")


def exported(name, trained_runs, capsys, *arguments):
    """A run of a kind as a file, by the command; what the file says of itself."""
    trained_runs.fetch(name)
    assert call("export", "run", "--out", "m.onnx", *arguments) == 0
    printed = capsys.readouterr().out
    assert "largest difference from the model: " in printed
    assert "examples of the test set" in printed
    return metadata_of("m.onnx")


def test_a_forecast_is_exported_with_its_intervals(trained_runs, capsys):
    """Of the combination of linear members and S4: y, and y plus and minus the half-widths of held-out windows."""
    about = exported("forecast", trained_runs, capsys, "--level", "50", "80")
    assert about["outputs"] == ["y", "low", "high"]
    assert about["levels"] == [50, 80]
    assert about["facts"]["inputs"]["columns"] == ["price"]
    run = longwave.open("run")
    batch = run.run.build_task().test.batch([0, 3])
    context = about["facts"]["inputs"]["context"]
    given = {"x": batch["x"][:, :context].numpy()} | {k: batch[k].numpy() for k in about["inputs"] if k != "x"}
    y, low, high = session("m.onnx").run(None, given)
    with torch.no_grad():
        assert error(y, forecast(run.model, batch, False, about["horizon"]).numpy()) < 1e-5
    found = run.predict("series.csv", level=[50, 80])
    widths = [(one.high - one.low)[:, 0] / about["facts"]["inputs"]["deviation"][0] for one in found.intervals]
    for k, width in enumerate(widths):
        np.testing.assert_allclose((high - low)[0, k, :, 0], width, atol=1e-6)
    np.testing.assert_allclose((low + high) / 2, y[:, None].repeat(2, axis=1), atol=1e-5)


def test_a_classifier_is_exported_with_its_random_convolutions(trained_runs, capsys):
    """Two-sided, of rows of unequal length: their lengths are the second input."""
    about = exported("classify", trained_runs, capsys)
    assert about["facts"]["inputs"]["classes"] == ["falling", "rising"]
    run = longwave.open("run")
    assert run.model.convolutions is not None
    batch = run.run.build_task().test.batch(range(4))
    y = session("m.onnx").run(None, {name: batch[name].numpy() for name in about["inputs"]})[0]
    with torch.no_grad():
        assert error(y, run.model(batch["x"], lengths=batch["lengths"])[0].numpy()) < 1e-5


def test_a_causal_classifier_is_exported_as_blocks(trained_runs, capsys):
    about = exported("causal", trained_runs, capsys, "--form", "blocks", "--length", "8")
    assert about["inputs"]["state"]["shape"] == [1, "batch", 8, 4]
    run = longwave.open("run")
    inputs = about["facts"]["inputs"]
    x = np.random.default_rng(0).standard_normal((2, 24, 1)).astype(np.float32)
    scores = stream("m.onnx", x)[:, -1]
    values = list(x * inputs["deviation"][0] + inputs["mean"][0])
    expected = run.predict(values).probabilities
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(powers / powers.sum(-1, keepdims=True), expected, atol=1e-5)


KINDS = ("regress", "tag", "audio", "images", "text", "words", "tokens", "pairs", "waveform", "density", "gaps")


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_run_is_exported(name, trained_runs, capsys, monkeypatch):
    """The command compares the file with the model on examples of the run; text has its vocabulary with it."""
    monkeypatch.setenv("LONGWAVE_DATA", "data")
    about = exported(name, trained_runs, capsys)
    if name in ("words", "tokens"):
        (vocabulary,) = about["files"].values()
        assert len(vocabulary) > 2
    if name == "audio":
        assert about["facts"]["inputs"]["sampling_rate"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["text", "words", "causal tags"])
@pytest.mark.parametrize("form", ["step", "blocks"])
def test_every_causal_kind_of_run_is_exported_with_its_state(name, form, trained_runs, capsys, monkeypatch):
    monkeypatch.setenv("LONGWAVE_DATA", "data")
    assert exported(name, trained_runs, capsys, "--form", form)["form"] == form


def test_the_command_refuses_what_a_run_cannot(trained_runs, capsys):
    trained_runs.fetch("forecast")
    assert call("export", "run", "--form", "step") == 2
    assert "a Forecaster takes whole sequences" in capsys.readouterr().err
    assert call("export", "elsewhere") == 2
    assert "no such run folder" in capsys.readouterr().err
    assert not Path("model.onnx").exists()


def test_the_code_of_the_page_runs_without_longwave(trained_runs, capsys):
    exported("causal tags", trained_runs, capsys, "--form", "blocks")
    Path("m.onnx").rename("model.onnx")
    page = (ROOT / "docs" / "export.md").read_text()
    code = page.split("```python\n")[1].split("```")[0]
    assert len(code.splitlines()) <= 22
    result = run_python(f"{code}\nimport sys\nassert 'torch' not in sys.modules", cwd=Path.cwd())
    assert result.returncode == 0, result.stderr
    assert len(result.stdout.splitlines()) == 10
    assert {"up", "down"} >= set(result.stdout.replace("'", " ").replace(",", " ").split()) - {"[", "]"}


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"id": "store"}, "run: a panel has scales and intervals of its own for each series"),
        ({"covariates": [{"name": "holiday"}]}, r"run: its forecasts read columns beside the target \(holiday\)"),
    ],
)
def test_forecasts_of_more_than_one_series_of_numbers_are_refused(trained_runs, facts, message):
    trained_runs.fetch("forecast")
    config = json.loads(Path("run/config.json").read_text())
    if "id" in facts:
        config["task"]["inputs"] |= facts
    else:
        config["task"] |= facts
    Path("run/config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=message):
        longwave.export("run", "m.onnx")
    assert not Path("m.onnx").exists()
