"""torch.compile(fullgraph=True), torch.export and autocast, in a fresh interpreter, as a user would run them.

pytest's shape checks wrap the functions that are to be compiled, so nothing of it is done in this process. A script
prints one line for each case that is wrong or does not compile; a test expects none. Cases share an interpreter: the
compiler alone takes seconds to import.
"""

import pytest
import torch
from dense import run_python

PREAMBLE = """
import os, torch
from longwave import S4

torch.manual_seed(0)
u = torch.randn(2, 9, 4)
lengths = torch.tensor([3, 9])
ALL = [{}, {"init": "legt", "n_ssm": 2, "length": 9, "dt_transform": "softplus"}, {"bidirectional": True}]
CAUSAL = ALL[:-1]
DIFFERENTIATED = [ALL[0], ALL[2]]

def check(name, value, true, bound=1e-5):
    flat = [(a, b) for a, b in zip(value, true, strict=True) if a is not None or b is not None]
    for a, b in flat:
        if a.dtype != b.dtype or a.shape != b.shape:
            print(name, "gives", a.dtype, tuple(a.shape), "not", b.dtype, tuple(b.shape))
        elif not (a - b).abs().max() <= bound * b.abs().max():
            print(name, "is off by", (a - b).abs().max().item(), "of", b.abs().max().item())

def attempt(name, run):
    torch._dynamo.reset()
    try:
        run()
    except Exception as error:
        print(name, "fails:", type(error).__name__, str(error).splitlines()[0])

def compiled(layer):
    return torch.compile(layer, fullgraph=True, backend=BACKEND)
"""

RATE = """
layer = S4(4, 8)
slow = lambda f: f(u, rate=0.5, need_state=False)
attempt("rate", lambda: check("rate", slow(compiled(layer)), slow(layer)))
"""

STATE = """
for options, more in zip(CAUSAL, ({"lengths": lengths}, {}), strict=True):
    layer = S4(4, 8, **options)
    with torch.no_grad():
        state = layer(u)[1]  # as it comes
    run = lambda f: f(u, state, **more)
    attempt(f"{options} {more}", lambda: check(f"{options}", run(compiled(layer)), run(layer)))
"""

LENGTHS = """
for options in ALL[1:]:
    layer = S4(4, 8, **options)
    padded = u.clone()
    padded[0, 3:] = torch.nan
    run = lambda f: f(padded, lengths=lengths)
    attempt(f"{options}", lambda: check(f"{options}", run(compiled(layer)), run(layer)))
"""

STEP = """
for options in CAUSAL:
    layer = S4(4, 8, **options)
    with torch.no_grad():
        state = layer(u)[1]  # as it comes
    step = torch.compile(layer.step, fullgraph=True, backend=BACKEND)

    def before_and_after_a_change():
        check(f"{options}", step(u[:, 0], state), layer.step(u[:, 0], state))
        with torch.no_grad():
            step(u[:, 0], state)
            layer.get_parameter(*layer.DT_PARAMETERS).add_(1)
            check(f"{options} changed", step(u[:, 0], state), layer.step(u[:, 0], state))

    attempt(f"{options}", before_and_after_a_change)
"""

BACKWARD = """
def gradients(layer, run):
    layer.zero_grad()
    y, state = run(u)
    (y.square().sum() + (0 if state is None else state.abs().square().sum())).backward()
    return [y, state, *(p.grad.clone() for p in layer.parameters())]

for options in DIFFERENTIATED:
    layer = S4(4, 8, **options)
    attempt(f"{options}", lambda: check(f"{options}", gradients(layer, compiled(layer)), gradients(layer, layer), 1e-4))
"""

# The same ops in plain torch: what their Python code computes must not depend on who calls it.
ON_THE_REFERENCE = f"""
os.environ["LONGWAVE_KERNEL"] = "reference"
DIFFERENTIATED = ALL[1:2]
{BACKWARD}
del os.environ["LONGWAVE_KERNEL"]
"""

LENGTH_AFTER_LENGTH = """
layer = S4(4, 8)
run = compiled(layer)

def several():
    for shape in ((2, 9, 4), (3, 20, 4), (1, 1, 4)):
        v = torch.randn(*shape)
        check(shape, run(v), layer(v))

attempt("several shapes", several)
"""

AUTOCAST = """
layer = S4(4, 8)

@torch.no_grad()
def cast():
    with torch.autocast("cpu", torch.bfloat16):
        value, narrow = compiled(layer)(u), compiled(layer)(u.bfloat16())
        check("autocast", value, layer(u))
    check("outside", value, layer(u))
    check("bfloat16", narrow, layer(u.bfloat16()), 1e-2)
    if (narrow[0].dtype, narrow[1].dtype) != (torch.bfloat16, torch.complex64):
        print("bfloat16 gives", narrow[0].dtype, narrow[1].dtype)

attempt("autocast", cast)
"""

EXPORT = """
class Step(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, u, state):
        return self.layer.step(u, state)

class Padded(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, u, lengths):
        return self.layer(u, lengths=lengths)

def export(name, module, *inputs):
    def run():
        with torch.no_grad():
            check(name, torch.export.export(module, inputs).module()(*inputs), module(*inputs))
    attempt(name, run)
"""

EXPORTED = """
layers = [S4(4, 8, **options) for options in ALL]
export("plain", layers[0], u)
export("P Q^*", S4(4, 8, low_rank="pq"), u)
for layer in layers[1:]:
    export(f"{layer} lengths", Padded(layer), u, lengths)
"""

EXPORTED_WITH_STATE = """
first, second = [S4(4, 8, **options) for options in CAUSAL]
export("state", first, u, first(u)[1].detach())
export("step", Step(second), u[:, 0], second(u)[1].detach())
"""

# One graph for every batch and length: whole blocks of 64 steps and steps that remain, none of one or of the other.
EXPORTED_FOR_EVERY_SIZE = """
from torch.export import Dim
from longwave import S4D, SequenceModel
SIZES = {0: Dim("batch"), 1: Dim("L")}
SHAPES = ((2, 9), (3, 128), (5, 200), (2, 63))

@torch.no_grad()
def every_size(name, module, **more):
    own = {key: {0: SIZES[0]} for key in more}
    given = [torch.randn(*shape, 4) for shape in SHAPES]
    states = [{key: torch.randn(len(x), 4, 4, dtype=torch.complex64) for key in more} for x in given]
    shapes = tuple([SIZES, *own.values()])
    graph = torch.export.export(module, (given[0], *states[0].values()), dynamic_shapes=shapes).module()
    for x, state in zip(given, states, strict=True):
        check(f"{name} {tuple(x.shape)}", graph(x, *state.values()), module(x, *state.values()))

for layer in (S4(4, 8), S4(4, 8, length=9), S4D(4, 8), S4(4, 8, bidirectional=True)):
    attempt(f"{layer}", lambda: every_size(f"{layer}", layer))
for layer in (S4(4, 8), S4D(4, 8)):
    attempt(f"{layer} state", lambda: every_size(f"{layer} state", layer, state=True))
for decoder in ("mean", "last", "sequence"):
    model = SequenceModel(d_model=8, n_layers=1, input_size=4, decoder=decoder).eval()
    class Output(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            return [self.model(x)[0]]
    attempt(decoder, lambda: every_size(decoder, Output(model)))
"""

EXPORTED_TO_A_FILE = """
import tempfile
layer = S4(4, 8)

def save():
    with tempfile.TemporaryDirectory() as folder:
        torch.export.save(torch.export.export(layer, (u,)), folder + "/layer.pt2")
        check("file", torch.export.load(folder + "/layer.pt2").module()(u), layer(u))

attempt("file", save)
"""

DIAGONAL = """
from longwave import S4D
layer = S4D(4, 8, n_ssm=2)
state = layer(u)[1].detach()
run = lambda f: f(u, state, lengths=lengths)
attempt("S4D", lambda: check("S4D", run(compiled(layer)), run(layer)))
export("S4D step", Step(layer), u[:, 0], state)
"""

ALONE = """
layer = S4(4, 8, return_state=False)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), layer)
attempt("y alone", lambda: check("y alone", [compiled(model)(u)], [model(u)]))
export("y alone, exported", model, u)
step = torch.compile(layer.step, fullgraph=True, backend=BACKEND)
attempt("first step", lambda: check("first step", step(u[:, 0]), layer.step(u[:, 0])))
"""

WIDE = """
from longwave import ops
x, z, weight, bias = (torch.randn(*shape) for shape in ((2, 9, 80), (2, 9, 80), (160, 80), (160,)))
mix = torch.compile(ops.gated_mix, fullgraph=True, backend=BACKEND)
attempt("wide", lambda: check("wide", [mix(x, z, None, weight, bias)], [ops.gated_mix(x, z, None, weight, bias)]))
"""

CASES = {
    "values and gradients": BACKWARD,
    "values and gradients on the reference": ON_THE_REFERENCE,
    "rate": RATE,
    "state": STATE,
    "lengths": LENGTHS,
    "step": STEP,
    "several lengths": LENGTH_AFTER_LENGTH,
}
OTHERS = {
    "under autocast it stays in float32": AUTOCAST,
    "exported": EXPORTED,
    "exported with a state": EXPORTED_WITH_STATE,
    "exported for every size": EXPORTED_FOR_EVERY_SIZE,
    "exported to a file and back": EXPORTED_TO_A_FILE,
    "S4D": DIAGONAL,
    "without its state": ALONE,
    "a wide gated block": WIDE,
}
# Differentiated, too; for the others tracing alone shows if there is one graph.
WITH_GRADIENTS = list(CASES)[:2]


def expect_nothing_wrong(code, cache, **environment):
    """Generate code into a folder of its own: torch's common one would give code made for other vectors than these."""
    environment["TORCHINDUCTOR_CACHE_DIR"] = str(cache)
    result = run_python(PREAMBLE + code + "\nprint('end')\n", timeout=280, **environment)
    assert result.stdout == "end\n", result.stdout + result.stderr


@pytest.mark.skipif(torch.__version__.startswith("2.6."), reason="torch 2.6 traces no steps, nor exports of every size")
def test_the_compiled_or_exported_layer_equals_the_eager_one():
    """Traced as a whole, and for the gradients differentiated; what would be generated code runs as torch has it."""
    cases = CASES | OTHERS
    code = PREAMBLE + EXPORT
    for case, script in cases.items():
        backend = "aot_eager" if case in WITH_GRADIENTS else "eager"
        code += f"\nprint('case', {case!r})\nBACKEND = {backend!r}\n{script}"
    result = run_python(code + "\nprint('end')\n", timeout=280, PYTHONWARNINGS="error")
    expected = [*(f"case {case}" for case in cases), "end"]
    assert result.stdout.splitlines() == expected, result.stdout + result.stderr


@pytest.mark.slow
def test_generated_code_equals_the_eager_layer(tmp_path):
    code = """
BACKEND = "inductor"
layer = S4(4, 4, n_ssm=1)
run = compiled(layer)

def both():
    y, true = run(u, need_state=False)[0], layer(u, need_state=False)[0]
    check("forward", [y], [true])
    values = torch.autograd.grad(y.square().sum(), list(layer.parameters()))
    check("backward", values, torch.autograd.grad(true.square().sum(), list(layer.parameters())), 1e-4)

attempt("inductor", both)
"""
    expect_nothing_wrong(code, tmp_path, TORCHINDUCTOR_COMPILE_THREADS="1")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_generated_code_equals_the_eager_layer_in_every_case(case, tmp_path):
    expect_nothing_wrong("BACKEND = 'inductor'\nALL = DIFFERENTIATED = ALL[:1]\n" + CASES[case], tmp_path)
