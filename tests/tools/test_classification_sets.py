"""The tool that trains on many small sets, on two tiny ones in their format."""

import json

import numpy as np
import pytest

from longwave import runs
from longwave.experiments import EXPERIMENTS, LoopConfig
from longwave.tasks.sequences.data import read_npz


@pytest.fixture
def tool(load_tool):
    return load_tool("classification_sets")


def write_set(folder, name, lengths=(12,)):
    generator = np.random.default_rng(0)
    for split, count in (("TRAIN", 8), ("TEST", 6)):
        rows = []
        for k in range(count):
            steps = [f"{value:.6f}" for value in generator.normal(3 * (k % 2), 1, max(lengths))]
            missing = max(lengths) - lengths[k % len(lengths)]
            rows.append("\t".join([str(k % 2), *steps[: len(steps) - missing], *["NaN"] * missing]))
        (folder / f"{name}_{split}.tsv").write_text("\n".join(rows) + "\n")


def test_missing_steps_are_cut_off_at_the_end_and_interpolated_elsewhere(tool, tmp_path):
    (tmp_path / "a.tsv").write_text("x\t1\tNaN\t3\tNaN\ny\tNaN\t2\t4\t5\nz\tNaN\tNaN\tNaN\tNaN\n")
    sequences, labels = tool.read_rows(tmp_path / "a.tsv")
    assert labels == ["x", "y"]
    assert [sequence.tolist() for sequence in sequences] == [[1, 2, 3], [2, 2, 4, 5]]


def test_sets_are_trained_once_and_put_side_by_side(tool, tmp_path, capsys, monkeypatch):
    small = EXPERIMENTS["classify"]
    monkeypatch.setitem(
        EXPERIMENTS._items,
        "classify",
        tool.replace(small, model=tool.replace(small.model, d_model=4, n_layers=1), loop=LoopConfig(epochs=1)),
    )
    monkeypatch.setattr(runs, "write_report", lambda *_: None)
    write_set(tmp_path, "Alpha")
    write_set(tmp_path, "Beta", lengths=(12, 7))
    write_set(tmp_path, "Zeta")
    out = tmp_path / "out"
    tool.main(["--out", str(out), "--data", str(tmp_path), "--seeds", "0", "1"])
    lines = capsys.readouterr().out.splitlines()
    assert [row.split()[0] for row in lines] == ["Alpha", "Beta", "mean"]
    assert read_npz(out / "Beta.npz").length is None
    results = [json.loads((out / f"Alpha-seed{seed}" / "result.json").read_text()) for seed in (0, 1)]
    expected = sum(result["test"]["accuracy"] for result in results) / 2
    assert f"S4 + random convolutions {expected:.4f}  S4 alone" in lines[0]
    monkeypatch.setattr(runs, "start", None)  # what is there is not trained again
    tool.main(["--out", str(out), "--data", str(tmp_path), "--sets", "Alpha"])
    assert capsys.readouterr().out.startswith("Alpha")
