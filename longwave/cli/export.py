"""`longwave export`: write a trained run as a file for other runtimes: ONNX, or torch's .pt2."""

from pathlib import Path
from typing import Literal

import tyro

from longwave.cli import _early


def command(
    run: tyro.conf.Positional[str],
    form: Literal["step", "blocks", "whole"] = "whole",
    to: Literal["onnx", "pt2"] = "onnx",
    length: int | None = None,
    level: tuple[float, ...] | None = None,
    out: Path | None = None,
) -> None:
    """Write a trained run as a file that runs without longwave, and check it by its runtime against the model.

    Examples:
        longwave export runs/classify-my-seed0 --out classifier.onnx
        longwave export runs/tag-my-seed0 --form blocks --length 64 --out tagger.onnx
        longwave export runs/forecast-my-seed0 --to pt2 --level 80 95 --out forecaster.pt2

    Args:
        run: Folder of a run, also of a published one, or its USER/NAME on Hugging Face.
        form: One step with its state in and out, blocks of steps with it, or whole sequences.
        to: The format: onnx for onnxruntime and others, pt2 for torch.export.load.
        length: Steps of a block (a power of two; by default 64), or of the longest whole sequence (by default that of
            training).
        level: Intervals of a forecast in per cent; by default 80 95 if the run has the errors for them.
        out: The file; by default model.onnx or model.pt2. Its metadata is written beside it as JSON.
    """
    found = _early.find_run(run)
    from longwave.core.terminal import say
    from longwave.exporting import export
    from longwave.train.folder import RunFolder

    exported = export(RunFolder.open(found), out, form=form, to=to, length=length, level=level, say=say)
    for name, described in exported.metadata["inputs"].items():
        print(f"input: {name} ({', '.join(map(str, described['shape']))}) {described['dtype']}")
    print(f"outputs: {', '.join(exported.metadata['outputs'])}")
    outputs = f"of outputs up to {exported.largest:.3g}"
    print(f"largest difference from the model: {exported.difference:.2g}, {outputs}, on {exported.checked}")
    print(f"file: {exported.path} ({exported.path.stat().st_size / 1e6:.2g} MB)")
    print(f"metadata: {exported.metadata_path}")
