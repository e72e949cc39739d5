"""The names of all experiments, as `longwave list` shows them; without torch, so that a wrong name is refused at once.

Their settings are in the other modules of this package; a test compares the names.
"""

import itertools
import re
from typing import NamedTuple

from longwave.tasks.forecast.benchmarks import HORIZONS

CUSTOM = (  # experiments on custom data, with their required options
    ("forecast --csv FILE --target COLUMN", "forecast a series"),
    ("classify --npz FILE (or --csv FILE)", "classify sequences"),
    ("regress --npz FILE (or --csv FILE)", "predict numbers for each sequence"),
    ("tag --npz FILE (or --csv FILE)", "label every step of sequences"),
    ("audio --folder FOLDER (or --csv FILE)", "classify audio files"),
    ("text --file FILE", "model text byte by byte, to generate more"),
    ("waveform --folder FOLDER", "model audio sample by sample, to generate more"),
)


class Family(NamedTuple):
    """A group of related experiments."""

    title: str
    rows: tuple[tuple[str, str], ...]  # a pattern of names, see `expand`, and a description


def _forecasting() -> tuple[tuple[str, str], ...]:
    rows = []
    for ending, columns in (("", "the target column"), ("-m", "all columns")):
        for data, horizons in HORIZONS.items():
            pattern = f"{data}-{{{','.join(map(str, horizons))}}}{ending}"
            rows.append((f"{pattern}[-small]", f"{columns}, horizon {horizons[0]} to {horizons[-1]}"))
            rows.append((f"{pattern}-hybrid", "the same with a linear map and a small S4"))
    return tuple(rows)


FAMILIES = (
    Family(
        "Long Range Arena (the paper's tab:lra)",
        (
            ("lra-listops[-small]", "nested lists of operators on digits, up to 1,999 tokens"),
            ("lra-listops-original", "settings of the paper's first version"),
            ("lra-text[-small]", "film reviews, up to 4,095 characters"),
            ("lra-text-original", "settings of the paper's first version"),
            ("lra-image[-small]", "CIFAR-10 in grey, 1,024 pixels"),
            ("lra-image-original", "settings of the paper's first version"),
            ("lra-retrieval[-small]", "two papers, up to 3,999 characters each"),
            ("lra-retrieval-original", "settings of the paper's first version"),
            ("lra-retrieval-synthetic-small", "a synthetic stand-in for it"),
            ("lra-pathfinder[-small]", "do two marked ends belong to one snake? images, 1,024 steps"),
            ("lra-pathfinder-original", "settings of the paper's first version"),
            ("lra-pathx[-small]", "the same in larger images, 16,384 steps"),
            ("lra-pathx-original", "settings of the paper's first version"),
        ),
    ),
    Family(
        "Audio (the paper's tab:sc)",
        (
            ("sc35-raw[-small]", "35 spoken words, 16,000 samples"),
            ("sc10-raw[-small]", "ten of them, 16,000 samples"),
            ("sc10-raw-original", "the paper's settings"),
            ("sc10-mfcc[-small]", "ten words, 161 frames of MFCC"),
            ("sc10-mfcc-original", "the paper's settings"),
            ("sc10-raw-cnn[-small]", "a convolutional network (WaveGAN-D), for comparison"),
            ("sc10-{raw,mfcc}-performer", "a Performer, for comparison"),
            ("sc10-mfcc-transformer[-small]", "a Transformer, for comparison"),
            ("sc10-mfcc-{exp,lipschitz}-rnn", "recurrences, for comparison"),
            ("sc10-raw-lstm-small", "an LSTM, for comparison"),
            ("fsdd", "spoken digits, 8 kHz, ~3,500 samples"),
        ),
    ),
    Family(
        "Images, pixel by pixel (the paper's tab:image)",
        (
            ("smnist[-small]", "digits, 784 steps of 1"),
            ("pmnist[-small]", "the same, pixels in a fixed random order"),
            ("scifar[-small]", "colour images, 1024 steps of 3"),
            ("scifar-original", "settings of the paper's first version"),
            ("scifar-resnet18[-small]", "a ResNet-18 on the 2-D images"),
            ("scifar-augmented[-small]", "with flips and crops"),
            ("scifar-resnet18-augmented[-small]", "the ResNet-18 with flips and crops"),
            ("scifar-batch-norm", "S4 with the norm of the ResNet"),
            ("scifar-layer-norm-small", "the small S4 with layer norm"),
            ("scifar-resnet18-layer-norm[-small]", "the ResNet with the norm of S4"),
            ("smnist-{lstm,transformer,lssl}-small", "for comparison, at equal training time"),
            ("scifar-{lstm,transformer,lssl}-small", "for comparison, at equal training time"),
        ),
    ),
    Family("Forecasting (the paper's tab:informer-s and tab:informer-m)", _forecasting()),
    Family(
        "Text, images and sound to generate",
        (
            ("wikitext2-bytes[-small]", "Wikipedia articles, byte by byte"),
            ("wikitext2-words[-small]", "the same, word by word (33,278 words)"),
            ("wikitext2-adaptive-small", "wikitext2-words-small with an adaptive softmax"),
            ("wikitext103", "267,735 words, 50 times the text; the paper's model, 250 million parameters"),
            ("wikitext103-original", "the same with a context of 1,024 words, as in the paper's first version"),
            ("wikitext103-shared", "the same with one Lambda, P and B for all features of a layer, 243 million"),
            ("mnist-density[-small]", "digits, 784 pixels of 256 values"),
            ("mnist-density-unet-small", "the same with a U-Net of state spaces"),
            ("cifar-density[-small]", "colour images, 3,072 values; the paper's U-Net of 61 million parameters"),
            ("cifar-density-large", "the same with 254 million"),
            ("cifar-density-flat-small", "the same without levels, for comparison"),
            ("sc09-waveform", "spoken digits of Speech Commands, 16,000 samples of 256 codes"),
            ("fsdd-waveform-small", "free spoken digits, 8 kHz"),
        ),
    ),
    Family(
        "Ablation of initialisations (the paper's fig:ssm-ablation; see longwave ablate)",
        (
            ("ablation-dense-hippo[-small]", "sCIFAR; A of HiPPO, dense and real"),
            ("ablation-dense-random[-small]", "A random, dense and real"),
            ("ablation-diagonal-random[-small]", "A random, diagonal and real"),
            ("ablation-nplr-hippo[-small]", "A of HiPPO, normal plus low-rank: S4"),
            ("ablation-nplr-random[-small]", "A random, normal plus low-rank"),
            ("ablation-dense-hippo-frozen[-small]", "the same, A not trained"),
            ("ablation-dense-random-frozen[-small]", "the same, A not trained"),
            ("ablation-diagonal-random-frozen[-small]", "the same, A not trained"),
            ("ablation-dense-hippo-dropout[-small]", "with dropout"),
            ("ablation-dense-random-dropout[-small]", "with dropout"),
            ("ablation-diagonal-random-dropout[-small]", "with dropout"),
            ("ablation-nplr-hippo-dropout[-small]", "with dropout"),
            ("ablation-nplr-random-dropout[-small]", "with dropout"),
        ),
    ),
)


ORIGINAL = (
    "NAME-original has the settings of the paper's first version, but A = Lambda - P P^*, which is always stable; that "
    "version had A = Lambda - P Q^* (--model.mixer.low-rank pq)."
)


def expand(pattern: str) -> list[str]:
    """The names that a pattern stands for: a-{1,2}[-small] is a-1, a-1-small, a-2 and a-2-small."""
    parts = re.split(r"[{}]", pattern.replace("[-small]", "{,-small}"))
    return ["".join(chosen) for chosen in itertools.product(*(part.split(",") for part in parts))]


def names() -> list[str]:
    """The names of all experiments of the package."""
    rows = [*CUSTOM, *(row for family in FAMILIES for row in family.rows)]
    return [name for pattern, _ in rows for name in expand(pattern.split()[0])]
