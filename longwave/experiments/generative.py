"""Text, images and sound to generate, and custom text and audio; settings for a GPU and for a CPU."""

import dataclasses

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import SequenceConfig, UNetConfig
from longwave.tasks.base import TaskConfig
from longwave.tasks.density.task import DensityConfig
from longwave.tasks.text.task import TextConfig
from longwave.tasks.waveform.task import WaveformConfig


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


def _wikitext103() -> list[Experiment]:
    """The paper's language model (tab:wt103), and the same with one Lambda, P and B for all features of a layer.

    Cut-offs, places of dropout and rates are those of the authors' code. The paper's 249 million parameters are those
    of one SSM per feature; the model that the authors published later shares them, and has 243 million. They trained
    with fp16 on eight GPUs, a row each, and set the cosine to 800,000 steps, which 508 epochs are.
    """
    own = SequenceConfig(
        d_model=1024,
        n_layers=16,
        mixers_per_block=2,
        feed_forward=4096,
        cutoffs=(19_997, 39_997, 199_997),
        dropout=0.25,
        dropout_after=("activation", "linear"),
        decoder="sequence",
    )
    task = TextConfig("wikitext103", level="words", length=8192, rows=8)
    optim = OptimConfig(lr=5e-4, ssm_lr=5e-4, weight_decay=0.1, warmup=1000, decay_steps=800_000, precision="fp16")
    loop = LoopConfig(epochs=508, batch_size=8, eval_batch_size=8)
    shared = dataclasses.replace(own, mixer=S4Config(n_ssm=1))
    return [
        Experiment("wikitext103", task, own, optim, loop),
        Experiment("wikitext103-shared", task, shared, optim, loop),
    ]


def _small(
    name: str,
    task: TaskConfig,
    d_model: int,
    dropout: float,
    epochs: int,
    batch_size: int,
    cutoffs: tuple[int, ...] = (),
) -> Experiment:
    """The same task in about an hour on two cores: narrower, less deep, and without feed-forward sublayers."""
    return Experiment(
        f"{name}-small",
        task,
        SequenceConfig(d_model=d_model, n_layers=4, dropout=dropout, cutoffs=cutoffs, decoder="sequence"),
        OptimConfig(lr=0.008, weight_decay=0.05, warmup=200, clip=1.0),
        LoopConfig(epochs=epochs, batch_size=batch_size, eval_batch_size=16, validations=2),
    )


def _images() -> list[Experiment]:
    """The paper's U-Nets of CIFAR-10, base and large, one that a core trains in about an hour, and one of digits.

    Beside the small one stands a flat model whose step costs about as much, to compare with.

    Levels, widths, dropout and LAMB at 0.005 are the paper's, the average of weights is of its authors' code; batch
    size, epochs and schedule were not published, and are ours.
    """
    base = UNetConfig(d_model=128, n_layers=8)
    lamb = OptimConfig(method="lamb", lr=0.005, ssm_lr=0.005, schedule="plateau", ema=0.9995, clip=1.0)
    loop = LoopConfig(epochs=100, batch_size=32, eval_batch_size=32)
    small = UNetConfig(d_model=64, n_layers=1)
    short = LoopConfig(epochs=1, batch_size=8, eval_batch_size=16, validations=6)
    brisk = OptimConfig(lr=0.004, weight_decay=0.05, warmup=200, clip=1.0, ema=0.995)
    return [
        Experiment("cifar-density", DensityConfig("cifar"), base, lamb, loop),
        Experiment(
            "cifar-density-large",
            DensityConfig("cifar"),
            dataclasses.replace(base, d_model=192, n_layers=16, dropout=0.1),
            lamb,
            loop,
        ),
        Experiment(
            "cifar-density-small",
            DensityConfig("cifar"),
            small,
            brisk,
            short,
        ),
        Experiment(
            "cifar-density-flat-small",
            DensityConfig("cifar"),
            SequenceConfig(d_model=128, n_layers=4, decoder="sequence"),
            brisk,
            short,
        ),
        Experiment(
            "mnist-density-unet-small",
            DensityConfig(),
            UNetConfig(d_model=48, n_layers=2, poolings=(4, 4)),
            brisk,
            LoopConfig(epochs=3, batch_size=32, eval_batch_size=32, validations=2),
        ),
    ]


def _waveforms() -> list[Experiment]:
    """Spoken digits with the settings of the authors' later model of audio, and what two cores can train."""
    shallow = UNetConfig(d_model=64, n_layers=1, poolings=(4, 4))
    brisk = OptimConfig(lr=0.004, weight_decay=0.01, warmup=100, clip=1.0, ema=0.995)
    return [
        Experiment(
            "sc09-waveform",
            WaveformConfig("sc09", length=16_000, sampling_rate=16_000),
            UNetConfig(d_model=64, n_layers=8, poolings=(4, 4), skips="stages", mixer=S4Config(n_ssm=1), glu=False),
            OptimConfig(lr=0.001, schedule="plateau", plateau_patience=20, plateau_factor=0.2, ema=0.999),
            LoopConfig(epochs=500, batch_size=32, eval_batch_size=16),
        ),
        Experiment(
            "fsdd-waveform-small",
            WaveformConfig("fsdd", length=4096, sampling_rate=8000),
            shallow,
            brisk,
            LoopConfig(epochs=20, batch_size=8, eval_batch_size=32, patience=5),
        ),
        Experiment(
            "waveform",
            WaveformConfig(),
            shallow,
            brisk,
            LoopConfig(epochs=20, batch_size=8, eval_batch_size=16, patience=5),
        ),
    ]


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
    *_images(),
    *_waveforms(),
    *_wikitext103(),
    _small("wikitext2-adaptive", WORDS, d_model=128, dropout=0.2, epochs=6, batch_size=16, cutoffs=(4000, 12_000)),
    _text(),
)
