"""The tables of `longwave bench lssl | attention | generation`: their arithmetic and structure, at tiny sizes."""

import importlib.util
import itertools
import json
from pathlib import Path

import pytest
import torch
from command import call
from dense import run_python

from longwave.bench import attention, generation, lssl, measure
from longwave.bench.picture import Panel, draw
from longwave.cli import bench as cli
from longwave.report.pictures import check_path

LINUX = pytest.mark.skipif(not measure.can_measure_memory(), reason="memory is measured on Linux only")


@pytest.fixture
def here(monkeypatch):
    """Whatever wants a process of its own runs in this one, at a size that takes no time."""

    def in_this_process(function, **case):
        return json.loads(json.dumps(function(**case)))

    for module in (lssl, attention, generation):
        monkeypatch.setattr(module, "in_fresh_process", in_this_process)
        monkeypatch.setattr(module.kernels.native, "keep_memory", lambda: None)
    for module in (lssl, attention):
        monkeypatch.setattr(module, "live_growth_of", lambda warm_up, run: (warm_up(), run(), 5_000_000)[-1])
        monkeypatch.setattr(module, "can_measure_memory", lambda: True)
    monkeypatch.setattr(lssl, "L", 32)
    monkeypatch.setattr(lssl, "DIMENSIONS", (8, 16))
    for name, value in (("WIDTH", 8), ("D_ATTENTION", 8), ("D_STATE", 8), ("LAYERS", 1), ("LENGTHS", (16, 32))):
        monkeypatch.setattr(attention, name, value)
    for name, value in (("WIDTH", 8), ("LAYERS", 1), ("FEED_FORWARD", 16), ("POINTS", 3)):
        monkeypatch.setattr(generation, name, value)
    monkeypatch.setattr(generation, "SHAPES", {"cifar": (40, 16), "words": (40, 30)})
    monkeypatch.setattr(generation, "BATCHES", (2, 1))
    monkeypatch.setattr(generation, "TURNS", {2: (1, 2), 1: (2, 2)})
    monkeypatch.setattr(generation.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("COLUMNS", "200")


# What is computed from the times


def test_the_integral_of_a_line_is_exact():
    contexts = [0, 3, 10]
    assert generation.integral(contexts, [2.0 + 0.5 * c for c in contexts], 10) == pytest.approx(2 * 10 + 0.25 * 10**2)


def test_behind_the_last_context_a_step_takes_as_long_as_there():
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


def test_generation_is_compared_by_tokens_a_second():
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


def test_attention_is_compared_with_the_stored_matrix():
    seconds, sizes = {"attention-stored": 6.0, "s4": 2.0}, {"attention-stored": 100, "s4": 25}
    first, s4 = attention.rows_at(1024, 4, dict.fromkeys(seconds, 4), {"attention-stored": 1, "s4": 2}, seconds, sizes)
    assert (first["speed"], first["memory"], first["paper"]) == (1, 1, None)
    assert (s4["speed"], s4["memory"]) == (3, 0.25)
    assert s4["paper"] == {"speed": 1.58, "memory": 0.43}


def test_a_model_that_does_not_fit_gives_its_reason_and_no_ratio():
    first, s4 = attention.rows_at(
        4096, 1, {"s4": 1}, {"attention-stored": 1, "s4": 2}, {"s4": 2.0}, {"s4": 25}, {"attention-stored": "too large"}
    )
    assert first["skipped"] == "too large"
    assert "seconds" not in first
    assert "speed" not in s4


def test_the_papers_ratios_follow_from_its_figures():
    ratios = [lssl.paper_row(H) for H in lssl.DIMENSIONS]
    assert [round(r["time_ratio"], 1) for r in ratios] == [2.0, 6.7, 29.6]  # 1.9 in the paper, which cuts 1.95
    assert [round(r["memory_ratio"]) for r in ratios] == [42, 134, 392]  # 133 in the paper, from figures less rounded
    assert lssl.paper_row(64) is None


def test_both_sides_have_the_papers_number_of_parameters():
    counts = {name: sum(p.numel() for p in attention.make_model(name, 64).parameters()) for name in attention.ROWS}
    assert all(590_000 < count < 610_000 for name, count in counts.items() if name != "s4-glu")


def test_a_state_is_counted_whatever_holds_it():
    class Holder:
        def __init__(self):
            self.layers, self.kind = [torch.zeros(3), {"values": torch.zeros(2, dtype=torch.float64)}], Holder

    assert generation.state_bytes(([Holder(), torch.zeros(5)], None, 7)) == 12 + 16 + 20


def test_the_state_grows_with_attention_only():
    names = ["attention", "linear-attention", "s4", "s4-feed-forward"]
    rows = generation.time_models(names, steps=200, vocabulary=16, batch=2, points=3, turns=1, burst=2)
    grown = {name for name, row in rows.items() if row["state_bytes_last"] > row["state_bytes_first"]}
    assert grown == {"attention"}
    assert all(len(row["step_seconds"]) == len(row["contexts"]) == 3 for row in rows.values())


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("transformers") is None, reason="wants longwave[bench]")
def test_gpt2_goes_on_from_what_it_has_read():
    code = """
import torch
from longwave.bench.generation import GPT2Generator, state_bytes, WIDTH, LAYERS
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


# Memory


@LINUX
def test_live_growth_counts_what_lives_at_once():
    code = """
import torch
from longwave.bench.measure import live_growth_of

def run():
    for _ in range(4):
        torch.ones(5_000_000)

print(live_growth_of(lambda: torch.ones(25_000_000), run))
"""
    assert 19e6 < int(run_python(code).stdout) < 24e6


def test_what_needs_too_much_memory_is_not_started(monkeypatch):
    monkeypatch.setattr(measure, "available_bytes", lambda: 9_100_000_000)
    assert measure.too_little_memory(9_000_000_000) is None
    reason = "not measured: it needs about 14.0 GB of memory, 9.1 GB are available"
    assert measure.too_little_memory(14_000_000_000) == reason
    monkeypatch.setattr(measure, "available_bytes", lambda: None)
    assert measure.too_little_memory(10**15) is None


# From the command line


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["lssl", "attention", "generation"])
def test_a_table_is_printed_and_drawn(name, capsys, tmp_path):
    picture = tmp_path / "new" / "picture.png"
    assert call("bench", name, "--picture", str(picture)) == 0
    shown = capsys.readouterr()
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert "ours / paper" in shown.out
    assert "this takes about" in shown.err
    assert call("bench", name, "--json") == 0
    result = json.loads(capsys.readouterr().out)
    assert result["bench"] == name
    assert result.get("rows") or result.get("tables")
    assert {"cpu", "threads", "kernel"} <= result["machine"].keys()


@pytest.mark.usefixtures("here")
def test_without_transformers_the_table_says_what_to_install(capsys):
    assert call("bench", "generation") == 0
    shown = capsys.readouterr().out
    assert 'pip install "longwave[bench]"' in shown
    assert "times its bare matrix products" in shown


@pytest.mark.usefixtures("here")
def test_a_dimension_that_does_not_fit_is_said(monkeypatch, capsys):
    monkeypatch.setattr(
        lssl, "too_little_memory", lambda needed: "not measured: too large" if needed > 100_000 else None
    )
    assert lssl.needed_bytes(8, 32) < 100_000 < lssl.needed_bytes(16, 32)
    assert call("bench", "lssl") == 0
    assert "dimension 16: not measured: too large" in capsys.readouterr().out


@pytest.mark.usefixtures("here")
def test_without_memory_nothing_is_measured_and_no_picture_drawn(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(generation, "too_little_memory", lambda needed: "not measured: too large")
    assert call("bench", "generation", "--picture", str(tmp_path / "a.png")) == 0
    shown = capsys.readouterr()
    assert "not measured: too large" in shown.out
    assert "a.png was not drawn: nothing was measured" in shown.err
    assert not (tmp_path / "a.png").exists()


@pytest.mark.usefixtures("here")
def test_a_large_lssl_runs_once(monkeypatch):
    runs = []
    whole = lssl.training_pass

    def counted(name, H, length):
        run = whole(name, H, length)
        return lambda: (runs.append((name, H)), run())

    monkeypatch.setattr(lssl, "training_pass", counted)
    seconds = lssl.times(16, 32, repeats=3, once=True)
    assert seconds.keys() == {"lssl", "s4"}
    assert runs.count(("lssl", 16)) == 1
    assert runs.count(("s4", 16)) == 4


@pytest.mark.usefixtures("here")
def test_of_large_batches_fewer_rows_are_measured_and_scaled(monkeypatch, capsys):
    monkeypatch.setattr(attention, "MOST_STORED", attention.needed_bytes("attention-stored", 32, 2))
    monkeypatch.setattr(attention, "MOST_TOKENS", 4 * 32)
    assert call("bench", "attention", "--batch", "8", "--json") == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["batch"] for row in rows} == {8}
    measured = {(row["L"], row["model"]): row["measured_batch"] for row in rows}
    assert measured[16, "attention"] == 8
    assert measured[16, "attention-stored"] == 4
    assert measured[32, "attention-stored"] == 2
    assert measured[32, "performer"] == 4
    assert measured[32, "s4"] == measured[32, "s4-glu"] == 8
    assert call("bench", "attention", "--batch", "8") == 0
    assert "2, scaled" in capsys.readouterr().out
    assert call("bench", "attention", "--batch", "0") == 2


def test_time_and_memory_are_scaled_alike():
    seconds, sizes = {"attention-stored": 6.0, "s4": 2.0}, {"attention-stored": 100, "s4": 25}
    first, s4 = attention.rows_at(
        4096, 8, {"attention-stored": 2, "s4": 8}, {"attention-stored": 1, "s4": 2}, seconds, sizes
    )
    assert (first["seconds"], first["memory_bytes"], first["measured_batch"]) == (24, 400, 2)
    assert (s4["speed"], s4["memory"], s4["seconds"]) == (12, 25 / 400, 2)


def test_a_picture_that_cannot_be_written_is_refused_before_measuring(capsys, tmp_path):
    assert call("bench", "lssl", "--picture", str(tmp_path / "picture.doc")) == 2
    assert "picture: expected a picture ending in one of" in capsys.readouterr().err
    (tmp_path / "a.png").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        check_path(Path(tmp_path / "a.png"))


def test_a_panel_without_points_is_left_out(tmp_path):
    full, empty = (Panel("t", "x", "y", {"S4": points}, {}) for points in ([(1, 2.0), (2, 3.0)], []))
    draw([full, empty], tmp_path / "two.svg")
    draw([full], tmp_path / "one.svg")
    two, one = ((tmp_path / f"{name}.svg").read_text().count('id="axes_') for name in ("two", "one"))
    assert two == one == 1


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, "-"), (0.00123, "1.23 ms"), (0.0456, "45.6 ms"), (12.0, "12,000 ms")]
)
def test_times_are_shown_with_three_digits(seconds, shown):
    assert cli._ms(seconds) == shown
