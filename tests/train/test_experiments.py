"""Named experiments and the settings of a run: what they say, and that they come back from config.json."""

import dataclasses
import json

import pytest
import torch
from image_files import write_cifar10, write_mnist
from text_files import write_wikitext2

from longwave import generate, models
from longwave.models import ModelConfig, ResNetConfig
from longwave.train.config import (
    KINDS,
    ClassifyConfig,
    DensityConfig,
    Experiment,
    ForecastConfig,
    ImageConfig,
    TextConfig,
    from_dict,
    to_dict,
)
from longwave.train.experiments import EXPERIMENTS, build_task, find, fit_model

IMAGES = sorted(name for name, e in EXPERIMENTS.items() if isinstance(e.task, ImageConfig))
GENERATIVE = [name for name, e in EXPERIMENTS.items() if isinstance(e.task, TextConfig | DensityConfig)]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_comes_back_from_json(name):
    assert from_dict(json.loads(json.dumps(to_dict(EXPERIMENTS[name])))) == EXPERIMENTS[name]


def test_paths_come_back_as_paths(tmp_path):
    for task in (
        ForecastConfig(csv=tmp_path / "a.csv"),
        ClassifyConfig(npz=tmp_path / "a.npz"),
        TextConfig(file=tmp_path),
    ):
        assert from_dict(json.loads(json.dumps(to_dict(Experiment("own", task))))).task == task


def test_a_run_of_an_older_version_did_not_say_its_kinds_and_is_still_read():
    content = to_dict(find("etth1-24"))
    old = {part: {k: v for k, v in content[part].items() if k != "kind"} for part in KINDS}
    assert from_dict({"name": "etth1-24", **old}) == find("etth1-24")


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        (
            "task",
            {"kind": "speech"},
            "task: expected the kind forecast or images or classify or text or density, got 'speech'; written by",
        ),
        ("model", {"wings": 2}, "unknown settings in model: wings; written by a newer longwave"),
        ("task", {"horizon": 3}, "unknown settings in task: horizon"),
    ],
)
def test_settings_that_are_not_known_are_refused(part, change, message):
    content = to_dict(find("smnist"))
    content[part] |= change
    with pytest.raises(ValueError, match=message):
        from_dict(content)


def test_the_paper_s_settings_of_scifar_are_those_of_its_tables():
    updated, original = find("scifar"), find("scifar-original")
    assert isinstance(updated.model, ModelConfig)
    assert isinstance(original.model, ModelConfig)
    for e, d_model, dropout, decay in ((updated, 512, 0.1, 0.05), (original, 1024, 0.25, 0.01)):
        assert (e.model.n_layers, e.model.d_model, e.model.norm, e.model.prenorm) == (6, d_model, "layer", False)
        assert (e.model.dropout, e.optim.lr, e.optim.weight_decay) == (dropout, 0.01, decay)
        assert (e.loop.batch_size, e.loop.epochs) == (50, 200)
    assert (updated.model.bidirectional, updated.model.n_ssm, updated.model.tie_dropout) == (True, 2, True)
    assert (updated.optim.schedule, original.optim.schedule) == ("cosine", "plateau")


def test_the_original_scifar_has_the_parameters_that_the_paper_counts():
    """7.9 million, in sec:experiments-general."""
    config = dataclasses.replace(find("scifar-original").model, input_size=3, output_size=10)
    count = sum(p.numel() for p in models.build(config).parameters())
    assert round(count / 1e6, 1) == 7.9


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_experiment_fits_its_model_to_the_images(name, tmp_path):
    (write_cifar10 if "cifar" in name else write_mnist)(tmp_path)
    task = build_task(find(name).task, tmp_path)
    model = fit_model(find(name), task).model
    channels, side = (3, 32) if "cifar" in name else (1, 28)
    assert (model.input_size, model.output_size) == (channels, 10)
    if isinstance(model, ResNetConfig):
        assert (model.height, model.image_width) == (side, side)
    else:
        assert model.length == side**2


@pytest.mark.parametrize("name", [name for name in IMAGES if name.endswith("-small") and "resnet" not in name])
def test_a_small_image_model_streams_and_takes_less_than_a_megabyte(name):
    config = find(name).model
    assert not config.bidirectional
    model = models.build(dataclasses.replace(config, output_size=10))
    assert sum(p.numel() for p in model.parameters()) * 4 < 1e6
    state = model.eval().initial_state(1)
    model.step(torch.zeros(1, 1), state)


def test_a_resnet_on_anything_but_images_is_refused(tmp_path):
    from longwave.tasks import classification, sequences

    task = classification.custom(sequences.from_arrays(torch.randn(20, 9).numpy(), ["a", "b"] * 10))
    with pytest.raises(ValueError, match="model: a ResNet wants images of one size, and classify has none"):
        fit_model(Experiment("own", ClassifyConfig(), ResNetConfig()), task)


def test_own_sequences_want_one_file(tmp_path):
    for config, given in ((ClassifyConfig(), "neither"), (ClassifyConfig(npz=tmp_path, csv=tmp_path), "both")):
        with pytest.raises(ValueError, match=f"classify: expected --npz FILE or --csv FILE, got {given}"):
            build_task(config, None)


# Text and images to generate


@pytest.fixture
def generative_data(tmp_path):
    write_wikitext2(tmp_path)
    write_mnist(tmp_path)
    (tmp_path / "my.txt").write_text("once upon a time " * 100)
    return tmp_path


@pytest.mark.parametrize("name", GENERATIVE)
def test_a_generative_experiment_fits_its_model_to_the_tokens_and_can_generate(name, generative_data):
    experiment = find(name)
    if name == "text":
        experiment = dataclasses.replace(
            experiment, task=dataclasses.replace(experiment.task, file=generative_data / "my.txt")
        )
    if isinstance(experiment.task, TextConfig):  # windows that fit into the miniature
        experiment = dataclasses.replace(experiment, task=dataclasses.replace(experiment.task, length=20))
    task = build_task(experiment.task, generative_data)
    model = fit_model(experiment, task).model
    assert model.vocabulary == model.output_size == task.output_size
    assert model.length == task.length
    narrow = models.build(dataclasses.replace(model, d_model=8, d_state=4, n_layers=1, feed_forward=0))
    assert generate(narrow, torch.zeros(2, 0), 3).shape == (2, 3)


@pytest.mark.parametrize("name", GENERATIVE)
def test_the_logits_of_an_evaluation_take_less_than_half_a_gigabyte(name):
    experiment = find(name)
    task = experiment.task
    length, vocabulary = (784, 256) if isinstance(task, DensityConfig) else (task.length, 256)
    if isinstance(task, TextConfig) and task.level == "words":
        vocabulary = 33_278
    assert experiment.loop.eval_batch_size * length * vocabulary * 4 < 2**29


def test_a_model_that_would_see_the_next_token_is_refused(generative_data):
    experiment = find("mnist-density-small")
    task = build_task(experiment.task, generative_data)
    for change in ({"bidirectional": True}, {"decoder": "mean"}):
        wrong = dataclasses.replace(experiment, model=dataclasses.replace(experiment.model, **change))
        with pytest.raises(
            ValueError, match="model: to tell each token from those before it wants bidirectional False"
        ):
            fit_model(wrong, task)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (TextConfig(), "text: expected --file FILE, a text of your own, got none"),
        (TextConfig(file="a.txt", level="words"), "level: a text of your own is told by its bytes; .* got words"),
        (TextConfig("wikitext2", file="a.txt"), "file: expected none with data wikitext2, got a.txt"),
    ],
)
def test_a_text_has_one_source(config, message):
    with pytest.raises(ValueError, match=message):
        build_task(config, None)
