"""How the tables on the pages of docs/results are laid out; `table` in measured.csv has their names."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Column:
    """A field or a detail of the first line that has it and is of this model and metric.

    `paper` is the paper's number, and `run` the command with commit, seeds and machine.
    """

    heading: str
    field: str = "value"
    model: str = ""
    metric: str = ""


@dataclass(frozen=True)
class Layout:
    """The fields that lines of one row share, with their headings; then the columns. `best`: the best score is bold."""

    keys: dict[str, str]
    columns: list[Column]
    best: bool = False

    def shows(self, model: str, metric: str) -> bool:
        """Whether a column takes values of this model and metric."""
        values = [column for column in self.columns if column.field == "value"]
        return any(column.model in ("", model) and column.metric in ("", metric) for column in values)


def _named(*fields: str, model: str = "") -> list[Column]:
    return [Column(field, field, model) for field in fields]


def _ratio(metric: str, heading: str) -> list[Column]:
    return [Column(heading, metric=metric), Column("the paper", "paper", metric=metric)]


_SCORES = [Column("S4 here", model="S4"), Column("S4, the paper", "paper", "S4")]
_SCORES += [Column(model, model=model) for model in ("NLinear", "DLinear", "repeat-last")]
_CLASSIFIERS = [
    *_named("train", "test", "steps"),
    *(Column(model, model=model) for model in ("S4 + random convolutions", "S4 alone", "random convolutions")),
    *_named("MiniRocket", "1-NN (DTW)", "minutes"),
]
_HYBRID = [Column("linear + S4", model="linear + S4"), *(Column(m, model=m) for m in ("NLinear", "DLinear"))]
_HYBRID += [Column("against the better", "against the better", "linear + S4")]
_HYBRID += [Column("S4 alone", "S4 alone", "linear + S4")]
_HYBRID += [Column("minutes a run", "minutes", "linear + S4"), Column("S4, the paper", "paper", "linear + S4")]
_FORECAST = [Column("MSE", metric="MSE"), Column("MSE, the paper", "paper", metric="MSE")]
_FORECAST += [
    Column("MAE", metric="MAE"),
    Column("MAE, the paper", "paper", metric="MAE"),
    *_named("seeds", "minutes", "run"),
]
_SPEED, _MEMORY = _ratio("speed over Transformer", "speed"), _ratio("memory over Transformer", "of the first")
_STEP = [Column(f"{model}, ms", "value", model, "training step, ms") for model in ("LSSL", "S4")]
_BYTES = [Column(f"{model}, MB", "value", model, "allocated, MB") for model in ("LSSL", "S4")]
_TOKENS = [Column("x attention", metric="speed over attention"), Column("x GPT-2", metric="speed over GPT-2")]
_RATES = ("0.25", "0.5", "1", "2", "4", "2, filtered", "4, filtered")
_STREAMED = [
    Column(f"{model}: {heading}", model=model, metric=metric)
    for model in ("4 layers of 64", "6 layers of 128", "4 layers of 64, S4D", "6 layers of 128, S4D")
    for heading, metric in (("ms a chunk", "time of a chunk, ms"), ("real-time factor", "real-time factor"))
]
_STATES = [Column("convolution, ms", metric="convolution, ms"), Column("without the state", metric="no state")]
_STATES += [
    Column(f"{way}, {when}", metric=f"{way}, {when}")
    for way in ("with it", "gradient into it")
    for when in ("before", "now")
]
_STATES += [Column("more for it, now", metric="more"), Column("forward alone, before", metric="more, forward, before")]
_STATES += [Column("forward alone, now", metric="more, forward")]
_NODES = [
    Column(f"{part}, {heading}", metric=f"{part}, {heading}")
    for part in ("spectrum", "kernel")
    for heading in ("all, ms", "few, ms", "few / all")
]
_BEFORE_AFTER = [Column("before", metric="before"), Column("now", metric="now"), Column("now / before", metric="ratio")]
_COMPARED = Layout(
    {"row": "", "model": "model"},
    [Column("test accuracy, %"), *_named("validation", "epochs", "parameters", "processor minutes", "run")],
)
_GENERATION = Layout(
    {"model": "model"},
    [
        *_named("parameters", "first step", "last step", "tokens per second"),
        *_TOKENS,
        Column("the paper", "paper"),
        *_named("state, first", "state, last"),
    ],
)
_PAPER_SIZE = Layout(
    {"row": "batch", "model": "model"},
    [
        *_named("parameters", "first step", "last step", "tokens per second", "images per second"),
        Column("x GPT-2", metric="speed over GPT-2"),
        Column("the paper", "paper"),
        *_named("state, first", "state, last"),
    ],
)
LAYOUTS = {
    "forecasting-etth1": Layout({"row": "ETTh1, univariate"}, _SCORES, best=True),
    "forecasting": Layout({"row": ""}, [*_named("seeds", model="S4"), *_SCORES], best=True),
    "classification": Layout({"row": "set"}, _CLASSIFIERS),
    "classification-long": Layout({"row": "set"}, _CLASSIFIERS),
    "classification-means": Layout({"row": ""}, _CLASSIFIERS),
    "forecasting-hybrid": Layout({"row": ""}, _HYBRID),
    "forecasting-paper": Layout({"row": ""}, _FORECAST),
    "forecasting-default": Layout({"row": ""}, _FORECAST),
    "lra": Layout(
        {"row": ""},
        [
            Column("S4 here, %", model="S4"),
            Column("the paper's S4", "paper", "S4"),
            Column("class prior", model="class prior"),
            Column("LSTM", model="LSTM"),
            *_named("epochs", "parameters", "run"),
        ],
    ),
    "lra-made": Layout({"row": ""}, [*_named("examples"), Column("processor seconds"), *_named("run")]),
    "speed-states": Layout({"row": "batch x length"}, _STATES),
    "speed-nodes": Layout({"row": "system, length, N"}, _NODES),
    "speed-before-after": Layout({"row": ""}, _BEFORE_AFTER),
    "speed-s4d": Layout(
        {"row": ""}, [Column("S4", metric="S4"), Column("S4D", metric="S4D"), Column("S4D / S4", metric="ratio")]
    ),
    "lra-steps": Layout(
        {"row": ""},
        [*_named("parameters", "batch", "parts"), Column("processor seconds"), *_named("memory", "rows per second")],
    ),
    "audio-digits": Layout(
        {"row": "trained at rate"},
        [
            *(Column(rate, metric=f"accuracy at rate {rate}, %") for rate in _RATES),
            *_named("parameters", "epochs", "processor minutes", "run"),
        ],
    ),
    "audio-rate-losses": Layout(
        {"row": "samples"},
        [
            Column("dt follows", metric="accuracy at the coarse rate, %"),
            Column("brought back to 8 kHz, dt as it was", metric="accuracy brought back, %"),
        ],
    ),
    "audio-words": Layout(
        {"row": "input", "model": "model"},
        [
            Column("accuracy, %", metric="accuracy, %"),
            Column("every second sample", metric="accuracy at rate 2, %"),
            Column("filtered", metric="accuracy at rate 2, filtered, %"),
            *_named("parameters", "epochs", "processor minutes", "run"),
        ],
    ),
    "audio-steps": Layout(
        {"row": ""}, [*_named("parameters", "batch"), Column("processor seconds"), *_named("memory", "rows per second")]
    ),
    "stream-chunks": Layout({"row": "chunk"}, _STREAMED),
    "stream-hour": Layout({"row": ""}, [Column("one hour")]),
    "stream-precision": Layout({"row": "steps so far"}, [Column("largest difference")]),
    "images": Layout(
        {"row": ""},
        [Column("test accuracy, %"), Column("the paper's S4", "paper"), *_named("epochs", "run")],
    ),
    "complexity": Layout(
        {"row": "", "model": "layer"},
        [
            Column(heading, field, metric=f"exponent in {size}")
            for size in ("L", "B", "H")
            for heading, field in ((size, "value"), ("the paper", "paper exponent"))
        ],
    ),
    "images-s4d": _COMPARED,
    "images-resnet": _COMPARED,
    "images-rivals": Layout(
        {"row": "", "model": "model"},
        [Column("test accuracy, %"), *_named("validation", "epochs", "steps", "parameters", "run")],
    ),
    "ablation": Layout(
        {"row": "A"},
        [
            Column("training, %", metric="training accuracy, %"),
            Column("validation", metric="validation accuracy, %"),
            Column("with dropout: training", metric="training accuracy with dropout, %"),
            Column("with dropout: validation", metric="validation accuracy with dropout, %"),
            *_named("trained parameters"),
        ],
    ),
    "text-softmax": Layout(
        {"row": "softmax"},
        [
            Column("test perplexity", metric="perplexity"),
            *_named("validation", "steps", "epochs", "parameters", "a step", "memory", "run"),
        ],
    ),
    "text-carry": Layout(
        {"row": "state in training"},
        [
            Column("from 0 in each window", metric="perplexity"),
            Column("carried on", metric="perplexity, state carried on"),
            *_named("validation", "steps", "epochs", "a step", "memory", "run"),
        ],
    ),
    "text-steps": Layout(
        {"row": ""}, [*_named("parameters", "batch", "parts"), Column("processor seconds"), *_named("memory")]
    ),
    "density": Layout(
        {"row": "", "model": "model"},
        [
            Column("test, bits per dimension", metric="bits per dimension"),
            *_named("validation", "steps", "images", "parameters", "images per second", "run"),
        ],
    ),
    "waveform": Layout(
        {"row": ""},
        [
            Column("test, bits per sample", model="S4 U-Net"),
            *(Column(model, model=model) for model in ("bigram", "unigram", "uniform")),
            *_named("validation", "parameters", "epochs", "seconds per second", "run", model="S4 U-Net"),
        ],
    ),
    "text": Layout(
        {"row": ""},
        [
            Column("metric", "metric"),
            Column("test", model="S4"),
            Column("unigram baseline", model="unigram"),
            *_named("parameters", "epochs", "run", model="S4"),
        ],
    ),
    "lssl": Layout(
        {"row": "dimension"},
        [*_STEP, *_ratio("time, LSSL / S4", "LSSL / S4"), *_BYTES, *_ratio("memory, LSSL / S4", "LSSL / S4")],
    ),
    "attention": Layout(
        {"row": "length", "model": "model"}, [*_named("rows measured", "time"), *_SPEED, *_named("memory"), *_MEMORY]
    ),
    **{f"generation-{shape}": _PAPER_SIZE for shape in ("wikitext103", "cifar10")},
    **{f"generation-{shape}": _GENERATION for shape in ("cifar-64", "cifar-1", "words-64", "words-1")},
}
