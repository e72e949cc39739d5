"""`longwave generate RUN`: text to the terminal as it is made, or a picture of images."""

import io
import secrets
import sys
import unicodedata
from pathlib import Path
from typing import Any

import tyro

SAMPLES, COMPLETIONS, COPIES = 32, 6, 4


def main(arguments: list[str]) -> None:
    """Run `longwave generate`."""
    tyro.cli(generate, prog="longwave generate", args=arguments)


def generate(
    run: tyro.conf.Positional[Path],
    prompt: str | None = None,
    length: int | None = None,
    count: int | None = None,
    complete: bool = False,
    images: tuple[int, ...] = (),
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    out: Path | None = None,
    data_dir: Path | None = None,
) -> None:
    """Generate with the best weights of a run: text that goes on from a prompt, or images.

    Text appears on the terminal as it is made. Images are written as one picture.

    Example: longwave generate runs/text-seed0 --prompt "Once upon a time" --length 500 --temperature 0.8

    Example: longwave generate runs/mnist-density-small-seed0 --count 32 --out digits.png

    Example: longwave generate runs/mnist-density-small-seed0 --complete --images 0 1 2 3 --out halves.png

    Args:
        run: Folder of the run.
        prompt: The text to go on from; by default none.
        length: Bytes or words to generate, by default 500.
        count: Texts, by default 1, or images, by default 32; with --complete, so many test images, by default 6.
        complete: Of test images, show the upper half and make up the lower.
        images: Which test images to complete, from 0 on.
        temperature: Below 1 for the likelier, above 1 for the rarer, 0 for the likeliest each time.
        top_k: Draw from so many of the likeliest bytes, words or pixel values only.
        top_p: Draw from the fewest that have this probability together.
        seed: The same seed generates the same; by default one is drawn, and told.
        out: The picture to write; by default samples.png or completions.png.
        data_dir: Folder with the data sets, if it is not where it was in training (for --complete).
    """
    from longwave.train import sample
    from longwave.train.config import TextConfig

    if count is not None and count < 1:
        raise ValueError(f"count: expected at least 1, got {count}")
    if seed is None:  # not left to torch, which starts every process with the same one
        seed = secrets.randbelow(2**32)
        print(f"seed {seed}", file=sys.stderr)
    choice = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
    if isinstance(sample.task_config(run), TextConfig):
        _refuse(f"{run} is a run on text: expected --prompt and --length", complete=complete, images=images, out=out)
        _print_text(run, prompt or "", 500 if length is None else length, count or 1, choice)
        return
    _refuse(f"{run} is a run on images: expected --count or --complete", prompt=prompt, length=length)
    from longwave.report.generation import draw_completions, draw_samples
    from longwave.report.pictures import check_path

    out = out or Path("completions.png" if complete or images else "samples.png")
    check_path(out, "out")
    if complete or images:
        indices = images or tuple(range(count or COMPLETIONS))
        figure = draw_completions(*sample.complete_images(run, indices, COPIES, data_dir, **choice))
    else:
        figure = draw_samples(sample.draw_images(run, count or SAMPLES, **choice))
    figure.savefig(out, dpi=120)
    print(f"picture: {out}")


def _print_text(run: Path, prompt: str, length: int, count: int, choice: dict[str, Any]) -> None:
    from longwave.tasks.text import Words
    from longwave.train import sample

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without UTF-8
    codec = sample.read_codec(run)
    unknown = codec.unknown(prompt) if isinstance(codec, Words) else []
    if unknown:
        print(f"note: read as <unk>, since the run does not know them: {', '.join(unknown)}", file=sys.stderr)
    for k in range(count):
        if count > 1:
            print(f"--- {k + 1} of {count} ---")
        for piece in sample.write_text(run, prompt, length, **choice | {"seed": choice["seed"] + k}):
            print(_printable(piece), end="", flush=True)
        print()


def _printable(text: str) -> str:
    """What a terminal may be given: it would obey control characters."""
    text = text.replace("\r", "")  # of lines that end in both
    return "".join("\ufffd" if unicodedata.category(c) == "Cc" and c not in "\n\t" else c for c in text)


def _refuse(what: str, **given: Any) -> None:
    for name, value in given.items():
        if value:
            raise ValueError(f"{what}, and no --{name}")
