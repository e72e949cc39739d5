"""Generative experiments on text, images and sound, with settings for a GPU and for a CPU."""

from dataclasses import replace

from longwave.experiments.base import Experiment, LoopConfig, OptimConfig, register
from longwave.layers import S4Config
from longwave.models import SequenceConfig, UNetConfig
from longwave.tasks.base import TaskConfig
from longwave.tasks.density.task import DensityConfig
from longwave.tasks.text.task import TextConfig
from longwave.tasks.waveform.task import WaveformConfig


def _small(
    name: str, task: TaskConfig, d_model: int, dropout: float = 0.0, batch_size: int = 16, epochs: int = 6
) -> Experiment:
    """A smaller version for about an hour on two cores: narrower, shallower, without feed-forward sublayers."""
    model = SequenceConfig(d_model=d_model, n_layers=4, dropout=dropout, decoder="sequence")
    optim = OptimConfig(lr=0.008, weight_decay=0.05, warmup=200, clip=1.0)
    loop = LoopConfig(epochs=epochs, batch_size=batch_size, eval_batch_size=16, validations=2)
    return Experiment(f"{name}-small", task, model, optim, loop)


# Text and digits. Ours, as the paper has neither of them, after what it did for WikiText-103 and for the density of
# CIFAR-10: layer norm before the mixer, feed-forward sublayers, AdamW with a cosine. A batch of words is small because
# each step has 33,278 logits.
BYTES, SHORT_BYTES = (TextConfig("wikitext2", length=length) for length in (1024, 512))
WORDS, SHORT_WORDS = (TextConfig("wikitext2", level="words", length=length) for length in (512, 128))
DIGITS = DensityConfig()
DEEP = SequenceConfig(d_model=512, n_layers=8, feed_forward=1024, dropout=0.1, decoder="sequence")
DROPPED = replace(DEEP, dropout=0.4)
PIXELS = replace(DEEP, d_model=256, feed_forward=512)
STEADY = OptimConfig(lr=0.001, weight_decay=0.1, warmup=1000, clip=1.0)
FEW_WORDS = LoopConfig(epochs=40, batch_size=16, eval_batch_size=4, patience=5)

register(
    Experiment("wikitext2-bytes", BYTES, DEEP, STEADY, LoopConfig(epochs=30, batch_size=32, eval_batch_size=32)),
    Experiment("wikitext2-words", WORDS, DROPPED, STEADY, FEW_WORDS),
    Experiment("mnist-density", DIGITS, PIXELS, STEADY, LoopConfig(epochs=50, batch_size=32, eval_batch_size=64)),
    _small("wikitext2-bytes", SHORT_BYTES, d_model=256),
    _small("wikitext2-words", SHORT_WORDS, d_model=128, dropout=0.2),
    _small("mnist-density", DIGITS, d_model=128, batch_size=32, epochs=4),
)

# The paper's U-Nets of CIFAR-10, base and large, one that a core trains in about an hour, with a flat model to compare
# whose step costs about as much, and one of digits. Levels, widths, dropout and LAMB at 0.005 are the paper's, the
# average of weights is of its authors' code; batch size, epochs and schedule were not published, and are ours.
CIFAR = DensityConfig("cifar")
UNORDERED = replace(CIFAR, ordered=False)
BASE = UNetConfig(d_model=128, n_layers=8)
LARGE = replace(BASE, d_model=192, n_layers=16, dropout=0.1)
FLAT = SequenceConfig(d_model=128, n_layers=4, decoder="sequence")
LAMB = OptimConfig(method="lamb", lr=0.005, ssm_lr=0.005, schedule="plateau", ema=0.9995, clip=1.0)
BRISK = OptimConfig(lr=0.004, weight_decay=0.05, warmup=200, clip=1.0, ema=0.995)
LONG = LoopConfig(epochs=100, batch_size=32, eval_batch_size=32)
SHORT = LoopConfig(epochs=1, batch_size=8, eval_batch_size=16, validations=6)

register(
    Experiment("cifar-density", UNORDERED, BASE, LAMB, LONG),
    Experiment("cifar-density-large", UNORDERED, LARGE, LAMB, LONG),
    Experiment("cifar-density-small", CIFAR, UNetConfig(d_model=64, n_layers=1), BRISK, SHORT),
    Experiment("cifar-density-flat-small", CIFAR, FLAT, BRISK, SHORT),
    Experiment(
        "mnist-density-unet-small",
        DIGITS,
        UNetConfig(d_model=48, n_layers=2, poolings=(4, 4)),
        BRISK,
        LoopConfig(epochs=3, batch_size=32, eval_batch_size=32, validations=2),
    ),
)

# Spoken digits with the settings of the authors' later model of audio, and what two cores can train.
SHALLOW = UNetConfig(d_model=64, n_layers=1, poolings=(4, 4))
SOUND = replace(BRISK, weight_decay=0.01, warmup=100)
PATIENT = LoopConfig(epochs=20, batch_size=8, eval_batch_size=16, patience=5)
FREE_DIGITS = WaveformConfig("fsdd", length=4096, sampling_rate=8000)

register(
    Experiment(
        "sc09-waveform",
        WaveformConfig("sc09", length=16_000, sampling_rate=16_000),
        UNetConfig(d_model=64, n_layers=8, poolings=(4, 4), skips="stages", mixer=S4Config(n_ssm=1), glu=False),
        OptimConfig(lr=0.001, schedule="plateau", plateau_patience=20, plateau_factor=0.2, ema=0.999),
        LoopConfig(epochs=500, batch_size=32, eval_batch_size=16),
    ),
    Experiment("fsdd-waveform-small", FREE_DIGITS, SHALLOW, SOUND, replace(PATIENT, eval_batch_size=32)),
    Experiment("waveform", WaveformConfig(), SHALLOW, SOUND, PATIENT),
)

# The paper's language model (tab:wt103), and the same with one Lambda, P and B for all features of a layer. Cut-offs,
# places of dropout and rates are those of the authors' code. The paper's 249 million parameters are those of one SSM
# per feature; the model that the authors published later shares them, and has 243 million. They trained with fp16 on
# eight GPUs, a row each, and set the cosine to 800,000 steps, which 508 epochs are.
ARTICLES = TextConfig("wikitext103", level="words", length=8192, rows=8)
LANGUAGE = SequenceConfig(
    d_model=1024,
    n_layers=16,
    mixers_per_block=2,
    feed_forward=4096,
    cutoffs=(19_997, 39_997, 199_997),
    dropout=0.25,
    dropout_after=("activation", "linear"),
    decoder="sequence",
)
SHARED = replace(LANGUAGE, mixer=S4Config(n_ssm=1))
HALF = OptimConfig(
    lr=5e-4,
    ssm_lr=5e-4,
    weight_decay=0.1,
    decay_norms=False,
    warmup=1000,
    decay_steps=800_000,
    precision="fp16",
)
EIGHT_ROWS = LoopConfig(epochs=508, batch_size=8, eval_batch_size=8)
PLAIN = _small("wikitext2-adaptive", SHORT_WORDS, d_model=128, dropout=0.2)

register(
    Experiment("wikitext103", ARTICLES, LANGUAGE, HALF, EIGHT_ROWS),
    # That of the paper's first version; of how it was trained, batch and context are known (sec:reproduction).
    Experiment("wikitext103-original", replace(ARTICLES, length=1024), LANGUAGE, HALF, replace(EIGHT_ROWS, epochs=64)),
    Experiment("wikitext103-shared", ARTICLES, SHARED, HALF, EIGHT_ROWS),
    PLAIN.with_setting("model.cutoffs", (4000, 12_000)),
    # Custom text: the small setting, narrower, with many passes over what may be a small file.
    Experiment(
        "text",
        TextConfig(length=256),
        replace(FLAT, dropout=0.1),
        replace(PLAIN.optim, warmup=50),
        replace(PATIENT, batch_size=16),
    ),
)
