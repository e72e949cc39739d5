"""Text and digits to generate, and custom text; WikiText-2 and MNIST with settings for a GPU and for a CPU."""

import dataclasses

from longwave.experiments.base import FAMILIES, Experiment, Family, LoopConfig, OptimConfig, register
from longwave.models import SequenceConfig
from longwave.tasks.base import TaskConfig
from longwave.tasks.density import DensityConfig
from longwave.tasks.text import TextConfig


def _generative() -> list[Experiment]:
    """Text and digits to generate; ours, as the paper has neither of them.

    After what it did for WikiText-103 and for the density of CIFAR-10: layer norm before the mixer, feed-forward
    sublayers, AdamW with a cosine. A batch of words is small because each step has 33,278 logits.
    """
    wide = SequenceConfig(d_model=512, n_layers=8, feed_forward=1024, dropout=0.1, decoder="sequence")
    steady = OptimConfig(lr=0.001, weight_decay=0.1, warmup=1000, clip=1.0)
    return [
        Experiment(
            "wikitext2-bytes",
            TextConfig("wikitext2", level="bytes", length=1024),
            wide,
            steady,
            LoopConfig(epochs=30, batch_size=32, eval_batch_size=32),
        ),
        Experiment(
            "wikitext2-words",
            TextConfig("wikitext2", level="words", length=512),
            dataclasses.replace(wide, dropout=0.4),
            steady,
            LoopConfig(epochs=40, batch_size=16, eval_batch_size=4, patience=5),
        ),
        Experiment(
            "mnist-density",
            DensityConfig(),
            dataclasses.replace(wide, d_model=256, feed_forward=512),
            steady,
            LoopConfig(epochs=50, batch_size=32, eval_batch_size=64),
        ),
    ]


def _small(name: str, task: TaskConfig, d_model: int, dropout: float, epochs: int, batch_size: int) -> Experiment:
    """The same task in about an hour on two cores: narrower, less deep, and without feed-forward sublayers."""
    return Experiment(
        f"{name}-small",
        task,
        SequenceConfig(d_model=d_model, n_layers=4, dropout=dropout, decoder="sequence"),
        OptimConfig(lr=0.008, weight_decay=0.05, warmup=200, clip=1.0),
        LoopConfig(epochs=epochs, batch_size=batch_size, eval_batch_size=16, validations=2),
    )


def _text() -> Experiment:
    """Custom text: the small setting, narrower, with many passes over what may be a small file."""
    return Experiment(
        "text",
        TextConfig(length=256),
        SequenceConfig(d_model=128, n_layers=4, dropout=0.1, decoder="sequence"),
        OptimConfig(lr=0.008, weight_decay=0.05, warmup=50, clip=1.0),
        LoopConfig(epochs=20, batch_size=16, eval_batch_size=16, patience=5),
    )


BYTES, WORDS = TextConfig("wikitext2", length=512), TextConfig("wikitext2", level="words", length=128)
register(
    *_generative(),
    _small("wikitext2-bytes", BYTES, d_model=256, dropout=0.0, epochs=6, batch_size=16),
    _small("wikitext2-words", WORDS, d_model=128, dropout=0.2, epochs=6, batch_size=16),
    _small("mnist-density", DensityConfig(), d_model=128, dropout=0.0, epochs=4, batch_size=32),
    _text(),
)
FAMILIES.register("generative")(
    Family(
        "Text and images to generate",
        [
            ("wikitext2-bytes", "Wikipedia articles, byte by byte"),
            ("wikitext2-words", "the same, word by word (33,278 words)"),
            ("mnist-density", "digits, 784 pixels of 256 values"),
        ],
        custom=(("text --file FILE", "a text, byte by byte, to generate more"),),
    )
)
