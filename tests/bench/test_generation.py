"""Generation: sampled contexts, the integral over them, and the size of a state."""

import importlib.util
import itertools

import pytest
import torch
from dense import run_python

from longwave.bench import generation
from longwave.bench.generation import GenerationBench
from longwave.bench.measure import state_bytes


def test_the_integral_of_a_line_is_exact():
    contexts = [0, 3, 10]
    assert generation.integral(contexts, [2.0 + 0.5 * c for c in contexts], 10) == pytest.approx(2 * 10 + 0.25 * 10**2)


def test_after_the_last_context_a_step_takes_as_long_as_there():
    assert generation.integral([0, 8], [1.0, 3.0], 10) == pytest.approx(16 + 2 * 3)


def test_contexts_are_spread_and_leave_room_for_the_timed_steps():
    contexts = generation.sampled_contexts(512, 9, 32)
    assert contexts[0] == 0
    assert contexts[-1] == 512 - 32
    assert all(b - a >= 32 for a, b in itertools.pairwise(contexts))
    with pytest.raises(ValueError, match="steps: 9 contexts with 32 timed steps each need 288, got 100"):
        generation.sampled_contexts(100, 9, 32)


@pytest.mark.parametrize("shapes", [generation.SHAPES, generation.QUICK_SHAPES])
def test_every_shape_has_room_for_its_samples(shapes):
    for steps, _ in shapes.values():
        for turns, burst in generation.TURNS.values():
            generation.sampled_contexts(steps, generation.POINTS, turns * burst)


def test_models_are_compared_by_tokens_per_second():
    flat = {"contexts": [0, 5], "parameters": 1}
    measured = {
        "attention": flat | {"step_seconds": [4.0, 4.0]},
        "s4": flat | {"step_seconds": [0.5, 0.5]},
        "gpt2": flat | {"step_seconds": [8.0, 8.0]},
    }
    rows = generation.compare(measured, 10, 4, {"s4": 60.0})
    assert rows["s4"]["tokens_per_second"] == pytest.approx(4 / 0.5)
    assert rows["s4"]["seconds"] == pytest.approx(5.0)
    assert (rows["s4"]["times_attention"], rows["s4"]["times_gpt2"]) == (8, 16)
    assert rows["s4"]["paper_times_transformer"] == 60
    assert rows["gpt2"]["times_attention"] == 0.5
    without = generation.compare({"s4": measured["s4"]}, 10, 4, {})
    assert "times_gpt2" not in without["s4"]


def test_a_state_is_counted_however_it_is_nested():
    class Holder:
        def __init__(self):
            self.layers, self.kind = [torch.zeros(3), {"values": torch.zeros(2, dtype=torch.float64)}], Holder

    assert state_bytes(([Holder(), torch.zeros(5)], None, 7)) == 12 + 16 + 20


@pytest.mark.usefixtures("tiny")
def test_the_state_grows_with_attention_only():
    names = ["attention", "linear-attention", "s4", "s4d", "s4-feed-forward"]
    rows = generation.time_models(names, steps=200, vocabulary=16, batch=2, points=3, turns=1, burst=2)
    grown = {name for name, row in rows.items() if row["state_bytes_last"] > row["state_bytes_first"]}
    assert grown == {"attention"}
    assert all(len(row["step_seconds"]) == len(row["contexts"]) == 3 for row in rows.values())


@pytest.mark.usefixtures("tiny")
def test_without_transformers_the_notes_say_what_to_install():
    bench = GenerationBench()
    notes = [note for table in bench.tables(bench.run(lambda text: None)) for note in table.notes]
    assert 'GPT-2: not measured: pip install "longwave[bench]" brings GPT-2' in notes
    assert any("times its bare matrix products" in note for note in notes)


@pytest.mark.usefixtures("tiny")
def test_the_paper_s_size_is_measured_with_its_own_models_and_batches():
    """With blocks, adaptive softmax over all words, and levels, if narrower here; GPT-2 is named as missing."""
    bench = GenerationBench(paper_size=True, batches=(2,))
    result = bench.run(lambda text: None)
    words, images = result["tables"]
    assert (words["shape"], words["batch"], list(words["models"])) == ("wikitext103", 2, ["s4-paper"])
    row = words["models"]["s4-paper"]
    assert row["parameters"] > 267_735
    assert row["state_bytes_first"] == row["state_bytes_last"] == 2 * 2 * 4 * 32 * 8  # two mixers in a block
    assert (images["shape"], images["batch"], list(images["models"])) == (
        "cifar10",
        2,
        ["unet-paper", "unet-large-paper"],
    )
    for row, times in zip(images["models"].values(), (65.1, 10.5), strict=True):
        assert row["state_bytes_first"] == row["state_bytes_last"]
        assert row["paper_times_transformer"] == times
    tables = bench.tables(result)
    assert [table.rows[0][0] for table in tables] == ["S4, the paper's", "S4 U-Net, the paper's base"]
    assert 'GPT-2, the paper\'s: not measured: pip install "longwave[bench]" brings GPT-2' in tables[0].notes
    assert tables[1].rows[1][0] == "S4 U-Net, the paper's large"
    assert 'GPT-2 of the base\'s size: not measured: pip install "longwave[bench]" brings GPT-2' in tables[1].notes
    assert any(note.startswith("images per second: S4 U-Net, the paper's base ") for note in tables[1].notes)
    assert [(t["layers"], t["d_model"], t["heads"]) for t in (words, images)] == [(16, 1024, 8), (20, 512, 8)]
    with pytest.raises(ValueError, match=r"batches: expected numbers from 1 on, got \(4, 0\)"):
        GenerationBench(batches=(4, 0)).check()


def test_a_step_of_a_unet_is_the_mean_over_a_group(monkeypatch):
    """The lower levels run in the last step of a group alone, so that the fastest step would say nothing of them."""

    class Grouped:
        model, period, state = torch.nn.Linear(1, 1), 4, None

        def __init__(self):
            self.taken = 0

        def read(self, tokens):
            self.taken += tokens.shape[1]

        def step(self):
            self.taken += 1
            clock[-1] += 10.0 if self.taken % 4 == 0 else 1.0

    clock = [0.0]  # what is timed adds to the last
    monkeypatch.setattr(generation, "make_generator", lambda *case: Grouped())
    monkeypatch.setattr(generation.ops, "keep_memory", lambda: None)
    monkeypatch.setattr(generation, "seconds_of", lambda run, device: (clock.append(0.0), run(), clock.pop())[2])
    rows = generation.time_models(["unet"], steps=40, vocabulary=5, batch=1, points=2, turns=1, burst=8)
    assert rows["unet"]["step_seconds"] == [13 / 4, 13 / 4]


def test_the_gpt2_beside_the_unet_has_as_many_parameters():
    layers, width, _, hidden = generation.generators.PAPER_SIZES["cifar10"]
    assert layers * (4 * width**2 + 2 * width * hidden) == pytest.approx(61.3e6, rel=0.05)  # of the base model


@pytest.mark.usefixtures("tiny")
def test_what_does_not_fit_into_memory_is_said(monkeypatch):
    monkeypatch.setattr(generation, "too_little_memory", lambda needed, device: "not measured: too large")
    bench = GenerationBench()
    result = bench.run(lambda text: None)
    assert all(table.notes == ["not measured: too large"] and not table.rows for table in bench.tables(result))
    assert bench.panels(result) == []


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="wants longwave[bench]")
def test_gpt2_goes_on_from_what_it_has_read():
    code = """
import torch
from longwave.bench.generators import GPT2Generator, WIDTH, LAYERS
from longwave.bench.measure import state_bytes
torch.manual_seed(0)
generator = GPT2Generator(20, 16, 2)
tokens = torch.randint(16, (2, 6))
with torch.no_grad():
    generator.read(tokens[:, :3])
    generator.read(tokens[:, 3:])
    generator.step()
    whole = generator.model(torch.cat((tokens, torch.zeros(2, 1, dtype=torch.long)), dim=1)).logits[:, -1].argmax(-1)
print(torch.equal(generator.tokens, whole), state_bytes(generator.state) == 2 * 2 * 7 * WIDTH * LAYERS * 4)
"""
    result = run_python(code)
    assert result.stdout.splitlines()[-1:] == ["True True"], result.stderr


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="wants longwave[bench]")
def test_gpt2_of_the_paper_s_shape_goes_by_features_with_its_cache():
    code = """
import torch
from longwave.bench import generators
from longwave.bench.measure import state_bytes
generators.PAPER_SIZES = {"wikitext103": (2, 16, 2, 32)}
body = generators.GPT2Body("wikitext103", 20, 3)
with torch.no_grad():
    body.read(torch.zeros(3, 5))
    body.step()
print(state_bytes(body.state) == 2 * 2 * 3 * 6 * 16 * 4)
"""
    result = run_python(code)
    assert result.stdout.splitlines()[-1:] == ["True"], result.stderr
