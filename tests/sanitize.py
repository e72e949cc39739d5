"""The compiled library under AddressSanitizer and UBSan, with random sizes: `make sanitize`.

The library is compiled with the sanitizers into a temporary folder and used by a process of its own for each vector
width that this CPU has, and by one more for products of bytes without VNNI. A round draws sizes, runs each op forward
and backward, steps and whole models, and compares with plain torch. The first error ends the process with a report.
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "longwave" / "ops" / "cpu" / "native.cpp"
FLAGS = ("-O1", "-g", "-std=c++17", "-fPIC", "-shared", "-fopenmp", "-fcx-fortran-rules", "-fno-omit-frame-pointer")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=500, help="at each vector width")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--library", type=Path, help=argparse.SUPPRESS)  # in the process that uses it
    parser.add_argument("--without-vnni", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.library is not None:
        return work(options.library, options.rounds, options.seed, options.without_vnni)
    compiler = os.environ.get("CXX", "g++")
    with tempfile.TemporaryDirectory() as temporary:
        library = Path(temporary) / "_native.so"
        subprocess.run([compiler, *FLAGS, *SANITIZERS, str(SOURCE), "-o", str(library)], check=True)
        runtime = subprocess.run(
            [compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
        ).stdout.strip()
        failed = 0
        for bits, *more in ((128,), (256,), (512,), (512, "--without-vnni")):
            environment = os.environ | {
                "LD_PRELOAD": runtime,
                "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0",  # Python and torch never free some of theirs
                "UBSAN_OPTIONS": "print_stacktrace=1",
                "LONGWAVE_VECTOR_BITS": str(bits),
                "LONGWAVE_KERNEL": "native",
            }
            command = [sys.executable, __file__, "--library", str(library)]
            command += ["--rounds", str(options.rounds), "--seed", str(options.seed), *map(str, more)]
            failed += subprocess.run(command, env=environment, check=False).returncode != 0
    return 1 if failed else 0


def work(path: Path, rounds: int, seed: int, without_vnni: bool) -> int:
    """Use the library at `path` at random sizes; without VNNI only what would use it."""
    import torch

    from longwave.core import native

    native.FOLDER = path.parent
    native.LIBRARY = path.name
    from longwave.ops.cpu import library

    bits = library.vector_bits()
    if str(bits) != os.environ["LONGWAVE_VECTOR_BITS"]:
        print(f"{os.environ['LONGWAVE_VECTOR_BITS']} bits: this CPU has {bits} at most; nothing to do")
        return 0
    kinds, name = KINDS, f"{bits} bits"
    if without_vnni:
        library.load().longwave_allow_vnni(False)
        kinds, name = (recurrence,), f"{bits} bits without VNNI"
    chance = random.Random(seed)
    torch.manual_seed(seed)
    for number in range(rounds):
        kinds[number % len(kinds)](chance)
        if (number + 1) % 100 == 0:
            print(f"{name}: {number + 1} of {rounds} rounds", flush=True)
    print(f"{name}: {rounds} rounds, nothing found", flush=True)
    os._exit(0)  # without tidying up: a process of torch was still there two minutes later


def layer(chance: random.Random) -> None:
    """A layer as a convolution with its gradients, in chunks, and one step at a time; all agree."""
    import torch

    from longwave import S4

    dtype = chance.choice((torch.float32, torch.float64))
    features, length, batch = (
        chance.randint(1, 40),
        chance.choice((1, 2, 3, chance.randint(1, 300))),
        chance.randint(1, 3),
    )
    own = S4(
        d_model=features,
        d_state=2 * chance.randint(1, 40),
        init=chance.choice(("legs", "legt", "lagt")),
        bidirectional=chance.random() < 0.2,
    ).to(dtype)
    u = torch.randn(batch, length, features, dtype=dtype, requires_grad=True)
    y, _ = own(u)
    y.square().sum().backward()
    assert u.grad is not None
    if not own.bidirectional:
        with torch.no_grad():
            cut = chance.randint(0, length - 1)
            state = own.initial_state(batch) if cut == 0 else own(u[:, :cut])[1]
            y_t, _ = own.step(u[:, cut], state)
        error = (y_t - y[:, cut]).abs().max() / y.abs().max().clamp_min(1e-6)
        assert error < (1e-2 if dtype == torch.float32 else 1e-8), float(error)


def model(chance: random.Random) -> None:
    """A deep model: its blocks fused in training, and all of them in one step of the compiled recurrence."""
    import torch

    from longwave import S4Config, SequenceModel

    own = SequenceModel(
        d_model=chance.choice((16, 32, 48, chance.randint(2, 40))),
        n_layers=chance.randint(1, 3),
        input_size=chance.randint(1, 3),
        output_size=chance.randint(1, 4),
        mixer=S4Config(d_state=2 * chance.randint(1, 20)),
        dropout=chance.choice((0.0, 0.3)),
        feed_forward=chance.choice((0, 0, 32)),
        norm=chance.choice(("layer", "batch", "scalar")),
    )
    x = torch.randn(chance.randint(2, 4), chance.randint(2, 60), own.config.input_size)
    own(x)[0].square().sum().backward()
    own.eval()
    with torch.no_grad():
        state = own.initial_state(len(x))
        for k in range(min(3, x.shape[1])):
            y, state = own.step(x[:, k], state)
    assert y.isfinite().all()


def nodes(chance: random.Random) -> None:
    """The spectrum from few nodes, with blocks that end behind the last node, and its gradients."""
    import torch

    from longwave.ops.cpu import kernel

    dtype = chance.choice((torch.float32, torch.float64))
    H, M, maps, rank = chance.randint(1, 5), chance.randint(1, 20), chance.randint(1, 2), chance.randint(0, 2)
    system = [torch.randn(*shape, 2, dtype=dtype) for shape in ((H, M), (rank, H, M), (H, M), (maps, H, M))]
    system[0][..., 0] = -system[0][..., 0].abs() * chance.choice((1e-6, 1.0))
    dt = torch.rand(H, dtype=dtype) + 1e-3
    L = chance.choice((1, 2, chance.randint(1, 700), chance.randint(1, 20000)))
    K_hat = kernel.spectrum(*system, dt, L, "few")
    gradients = kernel.spectrum_backward(torch.randn_like(K_hat), *system, dt, L, "few")
    assert all(t.isfinite().all() for t in (K_hat, *gradients))


def states(chance: random.Random) -> None:
    """States with their gradients, S4D too: from a state on, of rows of unequal length, after every k-th step."""
    import torch

    from longwave import S4, S4D

    dtype = chance.choice((torch.float32, torch.float64))
    features, length, batch = (
        chance.randint(1, 20),
        chance.choice((1, 64, chance.randint(1, 1200))),
        chance.randint(1, 3),
    )
    d_state = 2 * chance.randint(1, 40)
    own = (
        chance.choice((S4, S4D))(features, d_state, init="legs")
        if chance.random() < 0.7
        else S4(features, d_state, init="legt")
    ).to(dtype)
    u = torch.randn(batch, length, features, dtype=dtype, requires_grad=True)
    lengths = torch.tensor([chance.randint(0, length) for _ in range(batch)])
    start = own.states(u, every=length)[:, 0]
    y, state = own(u, start, lengths=lengths)
    some = own.states(u, every=chance.randint(1, length))
    (y.square().sum() + state.abs().square().sum() + some.abs().square().sum()).backward()
    assert u.grad is not None
    assert u.grad.isfinite().all()


def recurrence(chance: random.Random) -> None:
    """Compiled steps of models and U-Nets, with weights of each type, by one thread or several, from any step on."""
    import torch

    from longwave import S4Config, SequenceModel
    from longwave.models import Recurrence, UNet
    from longwave.ops.cpu import library

    lanes = library.vector_bits() // 32
    small = {"vocabulary": 7, "mixer": S4Config(d_state=2 * chance.randint(1, 20)), "n_layers": chance.randint(1, 2)}
    small |= {"d_model": lanes * chance.randint(1, 4), "norm": chance.choice(("layer", "scalar"))}
    small |= {"glu": chance.random() < 0.5, "output_size": chance.randint(1, 40)}
    if chance.random() < 0.5:
        poolings = tuple(chance.randint(1, 4) for _ in range(chance.randint(1, 3)))
        shape = {"feed_forward": chance.randint(0, 2), "widening": chance.randint(1, 2)}
        own: torch.nn.Module = UNet(poolings=poolings, skips=chance.choice(("layers", "stages")), **small, **shape)
    else:
        shape = {"feed_forward": lanes * chance.randint(0, 3), "decoder": "sequence", "prenorm": chance.random() < 0.5}
        own = SequenceModel(**small, **shape)
    batch, before = chance.randint(1, 70), chance.randint(1, 30)
    x = torch.randint(7, (batch, before + 15))
    weights = chance.choice(("float32", "bfloat16", "float16", "int8"))
    torch.set_num_threads(chance.randint(1, 3))
    with torch.no_grad():
        whole, _ = own.eval()(x)
        _, state = own(x[:, :before], need_state=True)
        steps = Recurrence(own, batch, state, weights=weights)
        assert steps.is_compiled
        for k in range(before, x.shape[1]):
            error = (steps(x[:, k]) - whole[:, k]).abs().max() / whole.abs().max().clamp_min(1e-6)
            assert error < (1e-3 if weights == "float32" else 0.3), (weights, float(error))


KINDS = (layer, model, nodes, states, recurrence)

if __name__ == "__main__":
    sys.exit(main())
