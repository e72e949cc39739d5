"""Named experiments and the settings of a run: what they say, and that they come back from config.json."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch
from image_files import write_cifar10, write_mnist
from pairwise import in_one_case
from text_files import write_wikitext2

from longwave import generate
from longwave.core.settings import dumps
from longwave.experiments import EXPERIMENTS, Experiment, LoopConfig, OptimConfig, families
from longwave.layers import MIXERS, S4Config
from longwave.models import PairConfig, ResNetConfig, UNetConfig
from longwave.tasks.audio.task import AudioConfig
from longwave.tasks.base import TASKS
from longwave.tasks.classify.task import ClassifyConfig
from longwave.tasks.density.task import DensityConfig
from longwave.tasks.forecast.task import ForecastConfig
from longwave.tasks.images.task import ImageConfig
from longwave.tasks.pairs.task import PairsConfig
from longwave.tasks.text.task import TextConfig

IMAGES = sorted(name for name, e in EXPERIMENTS.items() if isinstance(e.task, ImageConfig))
GENERATIVE = [name for name, e in EXPERIMENTS.items() if isinstance(e.task, TextConfig | DensityConfig)]


def test_every_experiment_comes_back_from_json():
    for experiment in EXPERIMENTS.values():
        assert Experiment.from_dict(json.loads(dumps(experiment))) == experiment


def test_every_experiment_is_listed_once():
    assert sorted(families.names()) == sorted(EXPERIMENTS)


def test_a_pattern_of_names_is_expanded_as_by_a_shell():
    assert families.expand("a-{1,2}-m[-small]") == ["a-1-m", "a-1-m-small", "a-2-m", "a-2-m-small"]
    assert families.expand("a") == ["a"]


@pytest.mark.parametrize(
    ("experiment", "name"),
    [
        (Experiment("forecast", ForecastConfig(csv=Path("some/my.csv"))), "forecast-my"),
        (Experiment("forecast", ForecastConfig(csv=Path("my.2024.csv.gz"))), "forecast-my.2024"),
        (Experiment("classify", ClassifyConfig(npz=Path("my.npz"))), "classify-my"),
        (Experiment("text", TextConfig(file=Path("my.txt"))), "text-my"),
        (Experiment("text", TextConfig()), "text"),
        (Experiment("audio", AudioConfig(folder=Path("some/clips/"))), "audio-clips"),
        (Experiment("audio", AudioConfig(folder=Path("."))), f"audio-{Path.cwd().stem}"),
        (EXPERIMENTS["etth1-720"], "etth1-720"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_run_on_custom_data_is_called_by_its_file(experiment, name):
    assert experiment.run_name == name


def test_paths_come_back_as_paths(tmp_path):
    for task in (
        ForecastConfig(csv=tmp_path / "a.csv"),
        ClassifyConfig(npz=tmp_path / "a.npz"),
        TextConfig(file=tmp_path),
    ):
        assert Experiment.from_dict(json.loads(dumps(Experiment("mine", task)))).task == task


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("task", {"kind": "speech"}, "settings: task: unknown kind 'speech'; expected one of .*classify"),
        ("model", {"wings": 2}, "settings: model: unknown setting 'wings'; .*did you mean 'window'"),
        ("model", {"mixer": {"kind": "s4", "heads": 2}}, "settings: model: mixer: unknown setting 'heads'"),
        ("task", {"horizon": 3}, "settings: task: unknown setting 'horizon'; expected one of data, augment"),
    ],
)
def test_settings_that_are_not_known_are_refused(part, change, message):
    content = EXPERIMENTS.find("smnist").to_dict()
    content[part] |= change
    with pytest.raises(ValueError, match=message):
        Experiment.from_dict(content)


def test_a_small_training_set_is_passed_over_more_often():
    """With batches that leave some noise, fewer validations, and a warm-up of at most a tenth of the steps."""
    small = Experiment(
        "a", ClassifyConfig(), optim=OptimConfig(warmup=200), loop=LoopConfig(epochs=None, min_steps=1000)
    )
    fitted = small.fitted(20, 5)
    assert (fitted.loop.batch_size, fitted.loop.epochs, fitted.optim.warmup) == (5, 250, 100)
    assert fitted.loop.validations == pytest.approx(10 / 250)
    assert fitted.fitted(20, 5) == fitted
    assert [small.fitted(count, 5).loop.batch_size for count in (1, 151, 200, 201)] == [1, 38, 50, 41]
    large = small.fitted(32_000, 5).loop
    assert (large.batch_size, large.epochs, large.validations) == (50, 10, 1)
    given = dataclasses.replace(small, loop=LoopConfig(epochs=3, min_steps=1000)).fitted(20, 5)
    assert (given.loop.batch_size, given.loop.epochs, given.optim.warmup) == (50, 3, 0)


def test_few_examples_do_not_choose_the_weights():
    auto = LoopConfig(keep="auto")
    assert [auto.fitted(1000, count).keep for count in (5, 99, 100)] == ["last", "last", "best"]
    assert LoopConfig(keep="best").fitted(1000, 5).keep == "best"


@pytest.mark.parametrize(
    ("setting", "value"), [("validations", 0), ("validations", 1.5), ("minutes", 0), ("minutes", -1)]
)
def test_validations_and_minutes_that_make_no_sense_are_refused(setting, value):
    with pytest.raises(ValueError, match=f"{setting}: expected a"):
        LoopConfig(**{setting: value})


def test_an_unknown_experiment_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match=r"unknown experiment 'sminst'; .*did you mean 'smnist'\?"):
        EXPERIMENTS.find("sminst")


@in_one_case(kind=TASKS)
def test_every_kind_of_task_is_reported_and_used(kind):
    settings = TASKS[kind]
    assert settings.action("predict") or settings.action("generate")


def test_the_original_scifar_has_the_parameters_that_the_paper_counts():
    """7.9 million, in sec:experiments-general."""
    config = dataclasses.replace(EXPERIMENTS.find("scifar-original").model, input_size=3, output_size=10)
    count = sum(p.numel() for p in config.build().parameters())
    assert round(count / 1e6, 1) == 7.9


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """A folder with a miniature of each set of images."""
    folder = tmp_path_factory.mktemp("images")
    write_mnist(folder)
    write_cifar10(folder)
    return folder


@in_one_case(name=IMAGES)
def test_an_image_experiment_fits_its_model_to_the_images(name, images):
    experiment = EXPERIMENTS.find(name)
    task = dataclasses.replace(experiment.task, train_size=None)  # of which there are few here
    model = experiment.model.resolve(task.build(images).spec)
    channels, side = {"scifar": (3, 32), "grey-cifar": (1, 32)}.get(experiment.task.data, (1, 28))
    assert (model.input_size, model.output_size) == (channels, 10)
    if isinstance(model, ResNetConfig):
        assert (model.height, model.image_width) == (side, side)
    else:
        assert getattr(model.mixer, "length", side**2) == side**2


OF_S4 = ("smnist-small", "pmnist-small", "scifar-small", "scifar-augmented-small", "scifar-layer-norm-small")


@pytest.mark.parametrize("name", ["smnist-lstm-small", *OF_S4])
def test_a_small_image_model_streams_and_takes_less_than_a_megabyte(name):
    config = EXPERIMENTS.find(name).model
    assert config.streams
    model = dataclasses.replace(config, output_size=10).build()
    assert sum(p.numel() for p in model.parameters()) * 4 < 1e6
    state = model.eval().initial_state(1)
    model.step(torch.zeros(1, 1), state)


@pytest.mark.parametrize("size", ["", "-small"])
def test_image_comparisons_differ_in_what_their_name_says_alone(size):
    base, resnet = EXPERIMENTS.find(f"scifar{size}"), EXPERIMENTS.find(f"scifar-resnet18{size}")
    for one in (base, resnet):
        head = one.name.removesuffix("-small")
        other = EXPERIMENTS.find(f"{head}-augmented{size}")
        assert other.task == dataclasses.replace(one.task, augment=True)
        assert dataclasses.replace(other, task=one.task, name=one.name) == one
        norm = "batch" if one.model.norm == "layer" else "layer"
        swapped = EXPERIMENTS.find(f"{head}-{norm}-norm{size}")
        assert dataclasses.replace(swapped, model=dataclasses.replace(swapped.model, norm=one.model.norm)) == (
            dataclasses.replace(one, name=swapped.name)
        )
        assert swapped.model.norm == norm


@pytest.mark.parametrize("rival", ["lstm", "transformer", "lssl"])
@pytest.mark.parametrize("task", ["smnist", "scifar"])
def test_what_s4_is_compared_with_has_its_task_and_loop(task, rival):
    ours, theirs = EXPERIMENTS.find(f"{task}-small"), EXPERIMENTS.find(f"{task}-{rival}-small")
    assert (theirs.task, theirs.loop) == (ours.task, ours.loop)
    assert theirs.model.d_model == ours.model.d_model
    mixer = {"transformer": "attention"}.get(rival, rival)
    assert theirs.model.mixer.kind == mixer


# The Long Range Arena


@pytest.mark.parametrize(
    ("name", "vocabulary", "classes", "layers", "width", "prenorm"),
    [
        ("lra-listops", 18, 10, 6, 256, False),
        ("lra-text", 134, 2, 6, 256, True),
        ("lra-listops-original", 18, 10, 6, 128, False),
        ("lra-text-original", 134, 2, 4, 64, True),
    ],
)
def test_the_long_range_arena_has_as_many_parameters_as_its_sizes_say(
    name, vocabulary, classes, layers, width, prenorm
):
    """Counted without memory; test_paper_settings.py has the settings."""
    e = EXPERIMENTS.find(name)
    updated = not name.endswith("original")
    states = 4 if updated else 64
    spec = e.task.on_random_data(rows=1).spec
    assert (spec.output_size, spec.vocabulary) == (classes, vocabulary)
    with torch.device("meta"):
        model = e.model.resolve(spec).build()
    half, copies = states // 2, 1 if updated else width  # complex numbers of a state; distinct Lambda, P and B
    ssm = width + copies * half * 6 + width * half * 2 * (2 if updated else 1) + width  # dt; Lambda, P, B; C; D
    linear = (width + 1) * width * (2 if updated else 1)
    expected = layers * (ssm + linear + 2 * width) + 2 * width * prenorm
    expected += vocabulary * width + (width + 1) * classes
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("name", ["lra-image", "lra-image-original"])
def test_image_has_as_many_parameters_as_its_sizes_say(name):
    e = EXPERIMENTS.find(name)
    updated = not name.endswith("original")
    assert e.task.split_seed == 42
    with torch.device("meta"):
        model = e.model.resolve(e.task.on_random_data(rows=1).spec).build()
    copies, ways = (1, 2) if updated else (512, 1)  # distinct Lambda, P and B; directions, and halves of the GLU
    ssm = 512 + copies * 32 * 6 + 512 * 32 * 2 * ways + 512  # dt; Lambda, P, B; C; D
    expected = 6 * (ssm + 513 * 512 * ways + 2 * 512) + 2 * 512 + 513 * 10
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("name", ["lra-retrieval", "lra-retrieval-original"])
def test_retrieval_has_as_many_parameters_as_its_sizes_say(name):
    e = EXPERIMENTS.find(name)
    updated = not name.endswith("original")
    assert isinstance(e.model, PairConfig)
    assert e.task == PairsConfig("aan", length=4000)
    with torch.device("meta"):
        model = e.model.resolve(e.task.on_random_data(rows=1).spec).build()
    half, (copies, ways) = (2, (1, 2)) if updated else (32, (256, 1))
    ssm = 256 + copies * half * 6 + 256 * half * 2 * ways + 256  # dt; Lambda, P, B; C; D
    expected = 6 * (ssm + 257 * 256 * ways + 2 * 256) + 2 * 256 + 98 * 256
    expected += (4 * 256 + 1) * 256 + 257 * 2  # what compares
    assert sum(p.numel() for p in model.parameters()) == expected


# Text and images to generate


@pytest.fixture
def generative_data(tmp_path):
    shutil.copytree(write_wikitext2(tmp_path), tmp_path / "wikitext-103")
    write_mnist(tmp_path)
    write_cifar10(tmp_path)
    (tmp_path / "my.txt").write_text("once upon a time " * 100)
    return tmp_path


@in_one_case(name=GENERATIVE)
def test_a_generative_experiment_fits_its_model_to_the_tokens_and_can_generate(name, generative_data):
    experiment = EXPERIMENTS.find(name)
    if name == "text":
        experiment = dataclasses.replace(
            experiment, task=dataclasses.replace(experiment.task, file=generative_data / "my.txt")
        )
    if isinstance(experiment.task, TextConfig):  # windows that fit into the miniature
        rows = min(experiment.task.rows, 2)
        experiment = dataclasses.replace(experiment, task=dataclasses.replace(experiment.task, length=20, rows=rows))
    task = experiment.task.build(generative_data)
    model = experiment.model.resolve(task.spec)
    assert model.output_size == task.vocabulary
    assert model.vocabulary == (task.vocabulary if task.reads is None else task.reads.vocabulary)
    assert (model.length if isinstance(model, UNetConfig) else model.mixer.length) == task.length
    narrow = dataclasses.replace(model, d_model=8, mixer=S4Config(d_state=4), n_layers=1, feed_forward=0)
    if getattr(model, "cutoffs", ()):
        narrow = dataclasses.replace(narrow, cutoffs=(5,))
    assert generate(narrow.build(), torch.zeros(2, 0), 3, reads=task.reads).shape == (2, 3)


@in_one_case(name=GENERATIVE)
def test_the_logits_of_an_evaluation_take_less_than_half_a_gigabyte(name):
    experiment = EXPERIMENTS.find(name)
    task = experiment.task
    if getattr(experiment.model, "cutoffs", ()):  # whose logits are worked out for some tokens at a time
        return
    images = {"mnist": 784, "cifar": 3072}
    length, vocabulary = images[task.data] if isinstance(task, DensityConfig) else task.length, 256
    if isinstance(task, TextConfig) and task.level == "words":
        vocabulary = 33_278
    assert experiment.loop.eval_batch_size * length * vocabulary * 4 < 2**29


def test_the_language_models_of_wikitext_103_are_those_of_the_paper():
    """Sizes by hand, and by the authors' own settings: 249 and 243 million parameters."""
    for name, shared, expected in (("wikitext103", False, 249_661_306), ("wikitext103-shared", True, 243_375_994)):
        e = EXPERIMENTS.find(name)
        with torch.device("meta"):
            model = e.model.resolve(e.task.on_random_data(rows=1).spec).build()
        ssm = 1024 + (1 if shared else 1024) * 32 * 6 + 1024 * 32 * 2 + 1024  # dt; Lambda, P, B; C; D
        sublayer = ssm + 1025 * 2048 + 2 * 1024
        feed_forward = 1025 * 4096 + 4097 * 1024 + 2 * 1024
        ends = 1024 * (19_997 + 1024) + 256 * (20_000 + 1024) + 64 * (160_000 + 1024) + 16 * (67_738 + 1024)
        ends += 1024 * 1024 + 267_735 + 3 * 1025  # U, biases, clusters
        assert 16 * (2 * sublayer + feed_forward) + 2 * 1024 + ends == expected
        assert sum(p.numel() for p in model.parameters()) == expected
        assert len(model.blocks) == 32


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [({}, 4_073_600), ({"norm": "scalar"}, 4_059_360), ({"norm": "scalar", "glu": True}, 4_751_072)],
)
def test_the_model_of_spoken_digits_has_the_parameters_of_the_authors_with_their_norm_and_glu(changes, parameters):
    e = EXPERIMENTS.find("sc09-waveform")
    with torch.device("meta"):
        model = dataclasses.replace(e.model, **changes).resolve(e.task.on_random_data(1).spec).build()
    assert sum(p.numel() for p in model.parameters()) == parameters


def test_a_model_that_would_see_the_next_token_is_refused(generative_data):
    experiment = EXPERIMENTS.find("mnist-density-small")
    spec = experiment.task.build(generative_data).spec
    for kind in MIXERS:
        wrong = dataclasses.replace(experiment.model, mixer=MIXERS[kind](bidirectional=True))
        with pytest.raises(ValueError, match="bidirectional: this task needs a causal model"):
            wrong.resolve(spec)
