"""Which backend runs, what it says of itself, and a backend that lives in this file alone."""

import json
import re
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from command import call
from dense import error, random_system, run_python
from torch._subclasses.fake_tensor import FakeTensorMode

import longwave
from longwave import ops
from longwave.bench import check
from longwave.core import native
from longwave.ops import BACKENDS, Backend, Unavailable, reference, registration
from longwave.ops import backend as choice
from longwave.ops.cpu import library
from longwave.ops.gpu import launch, spectrum, step
from longwave.ops.table import OPS


def kernel():
    """A kernel of four steps, by the backend that is chosen."""
    z = torch.full((1, 2), -1 + 1j, dtype=torch.complex128)
    return ops.dplr_kernel(z, z.unsqueeze(0), z, z, torch.tensor([0.1], dtype=torch.float64), 4)[0]


# The choice


def test_the_environment_forces_a_backend(backend):
    assert ops.backend_name() == backend
    assert choice.find("spectrum", "cpu", torch.float32) is BACKENDS[backend]


def test_the_default_backend_is_the_compiled_one(compiled, monkeypatch):
    for nothing in (None, ""):
        monkeypatch.delenv(choice.VARIABLE, raising=False)
        if nothing is not None:
            monkeypatch.setenv(choice.VARIABLE, nothing)
        assert ops.backend_name() == "native"


@pytest.mark.parametrize("nonsense", ["nonsense", "Native", "reference,native", " "])
def test_an_unknown_backend_is_refused_with_the_known_ones(monkeypatch, nonsense):
    monkeypatch.setenv(choice.VARIABLE, nonsense)
    with pytest.raises(
        ValueError, match=f"{choice.VARIABLE}: expected one of native, reference, triton, got {nonsense!r}"
    ):
        kernel()


def test_other_dtypes_and_devices_go_to_the_reference(backend):
    for tensor in (torch.zeros(1, dtype=torch.bfloat16), torch.zeros(1, device="meta")):
        assert choice.function("spectrum", tensor) is BACKENDS["reference"].functions["spectrum"]


def test_the_reference_has_every_op_that_torch_knows():
    assert choice.WITH_GRADIENT | {"same"} == BACKENDS["reference"].ops
    for device, dtype in (("cpu", torch.float16), ("cuda", torch.int8), ("xpu", torch.float32)):
        assert BACKENDS["reference"].serves(device, dtype)


def test_every_backend_says_what_it_is():
    for name, backend in BACKENDS.items():
        assert backend.name == name
        assert backend.unavailable() is None or isinstance(backend.unavailable(), str)
        assert backend.unavailable() or backend.description()


@pytest.mark.parametrize("names", [["convolve"], ["convolve", "convolve_backward", "Spectrum"], ["mix_backward"]])
def test_a_backend_with_half_an_op_or_an_unknown_one_is_refused(names):
    with pytest.raises(ValueError, match=r"^backend 'half': expected functions of the ops .*, got \w+"):
        Backend("half", dict.fromkeys(sorted(names), kernel), description=str)


# Without the compiled library


@pytest.fixture(scope="module")
def without_library(tmp_path_factory):
    """What a fresh interpreter does with the package as it is after an install without a compiler."""
    folder = tmp_path_factory.mktemp("copy")
    package = Path(longwave.__file__).parent  # an installed one, where the tests of a wheel run
    shutil.copytree(package, folder / "longwave", ignore=shutil.ignore_patterns("_native*", "__pycache__"))
    code = """
import json, os, warnings, torch, longwave
from longwave import ops
z = torch.full((1, 2), -1 + 1j, dtype=torch.complex128)
kernel = lambda: ops.dplr_kernel(z, z.unsqueeze(0), z, z, torch.tensor([0.1], dtype=torch.float64), 4)[0].tolist()
found = {}
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    found["default"] = [kernel() for _ in range(2)]
    found["backend"] = ops.backend_name()
    layer = longwave.S4(4, 8)
    y, state = layer(torch.randn(2, 20, 4))
    (y.sum() + state.abs().sum()).backward()
    found["learns"] = all(p.grad is not None and bool(torch.isfinite(p.grad).all()) for p in layer.parameters())
    found["warnings"] = [f"{w.category.__name__} {w.message}" for w in caught]
    caught.clear()
    os.environ["LONGWAVE_KERNEL"] = "reference"
    found["reference"] = kernel()
    found["warnings of the reference"] = [str(w.message) for w in caught]
os.environ["LONGWAVE_KERNEL"] = "native"
try:
    kernel()
except Exception as error:
    found["native"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""
    result = run_python(code, cwd=folder)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_without_the_library_the_reference_serves_with_one_warning(without_library):
    assert without_library["backend"] == "reference"
    (warned,) = without_library["warnings"]
    assert warned.startswith("RuntimeWarning longwave is running its slow reference ops: no compiled library")
    assert "C++ compiler" in warned
    for values in without_library["default"]:
        assert error(torch.tensor(values, dtype=torch.float64), kernel()) < 1e-13


def test_without_the_library_the_reference_can_be_asked_for_without_a_warning(without_library):
    assert without_library["warnings of the reference"] == []
    assert without_library["reference"] == without_library["default"][0]


def test_without_the_library_asking_for_it_is_an_error(without_library):
    assert without_library["native"].startswith("Unavailable: no compiled library")
    assert "Install one (for example g++) and install longwave again" in without_library["native"]


def test_a_layer_learns_without_the_library(without_library):
    assert without_library["learns"] is True


@pytest.fixture
def fresh_choice(monkeypatch):
    """The library is looked for again, in the folder that a test names, and no backend is forced."""
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.setattr(library, "load", library.load.__wrapped__)
    monkeypatch.setattr(choice, "_by_default", choice._by_default.__wrapped__)


def test_a_file_that_is_no_library_is_named_in_the_warning(monkeypatch, fresh_choice, tmp_path):
    (tmp_path / native.LIBRARY).write_bytes(b"not a library")
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    with pytest.warns(RuntimeWarning, match=re.escape(f"{native.LIBRARY} does not load")):
        assert ops.backend_name() == "reference"
    monkeypatch.setenv(choice.VARIABLE, "native")
    with pytest.raises(Unavailable, match="does not load"):
        kernel()


def test_a_library_of_another_version_is_refused(compiled, monkeypatch, fresh_choice):
    monkeypatch.setattr(native, "ABI", native.ABI + 1)
    with pytest.raises(Unavailable, match="another version of longwave: install longwave again"):
        library.load()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert ops.backend_name() == "reference"
    assert [w.category for w in caught] == [RuntimeWarning]


# A custom backend


@pytest.fixture
def toy(monkeypatch):
    """A backend with the convolution alone, registered by one call and chosen by the environment; its calls."""
    monkeypatch.setenv("COLUMNS", "200")
    calls = []

    def convolve(u, K, D):
        calls.append("convolve")
        return BACKENDS["reference"].functions["convolve"](u, K, D)

    def convolve_backward(dy, u, K, D):
        calls.append("convolve_backward")
        return reference.convolve_backward(dy, u, K, D)

    functions = {"convolve": convolve, "convolve_backward": convolve_backward}
    BACKENDS.register("toy")(Backend("toy", functions, description=lambda: "a toy"))
    monkeypatch.setenv(choice.VARIABLE, "toy")
    yield calls
    BACKENDS.unregister("toy")


def test_a_backend_runs_its_op_and_the_reference_the_others(toy, monkeypatch):
    layer, u = longwave.S4(4, 8), torch.randn(2, 20, 4)

    def run():
        y, state = layer(u)
        (y.sum() + state.abs().sum()).backward()
        gradients = [p.grad.clone() for p in layer.parameters()]
        layer.zero_grad()
        with torch.no_grad():
            return [y.detach(), *gradients, *layer.step(u[:, 0], state)]

    values = run()
    assert toy == ["convolve", "convolve_backward"]
    assert choice.function("spectrum", u) is BACKENDS["reference"].functions["spectrum"]
    monkeypatch.setenv(choice.VARIABLE, "reference")
    assert all(torch.equal(a, b) for a, b in zip(values, run(), strict=True))
    assert len(toy) == 2


def test_what_a_backend_has_not_goes_to_plain_torch(toy):
    """Steps, the parts of a block, and the comparison of tensors."""
    system = random_system(4, 3, 1).to(torch.float32)
    discrete = longwave.ssm.dplr_bilinear(system.Lambda, system.P, system.B, system.dt)
    assert ops.layer_steps(discrete, system.C, torch.zeros(4)) is None
    assert ops.block_steps([]) is None
    z = torch.randn(4, 600, 8)
    assert torch.equal(ops.activate(z), torch.nn.functional.gelu(z))
    assert ops.same([z], [z.clone()])
    assert not ops.same([z], [z + 1])


def test_the_doctor_lists_a_backend_with_its_ops(toy, capsys):
    assert call("doctor") == 0
    out = capsys.readouterr().out
    assert "toy: a toy; supports convolve\n" in out
    assert re.search(r"toy\W+convolve\W", out)
    assert not re.search(r"toy\W+spectrum\W", out)
    assert "CPU tensors use: toy" in out


def test_a_backend_that_cannot_run_is_an_error_with_the_reason(toy, capsys):
    BACKENDS.unregister("toy")
    functions = BACKENDS["reference"].functions
    away = Backend("toy", functions, description=str, unavailable=lambda: "the toy is in the attic")
    BACKENDS.register("toy")(away)
    with pytest.raises(Unavailable, match="the toy is in the attic"):
        kernel()
    assert call("doctor") == 1
    out = capsys.readouterr().out
    assert "toy is not available: the toy is in the attic" in out


# Devices


@pytest.fixture
def claim(monkeypatch):
    """Registers a backend with some ops that is chosen by default for a kind of device."""
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    names = []

    def put(name, *ops_of_it, devices, **settings):
        known = BACKENDS["reference"].functions
        functions = {f"{op}{end}": known[f"{op}{end}"] for op in ops_of_it for end in ("", "_backward")}
        BACKENDS.register(name)(Backend(name, functions, description=lambda: name, devices=devices, **settings))
        names.append(name)
        return BACKENDS[name]

    yield put
    for name in names:
        BACKENDS.unregister(name)


def test_the_backend_is_that_of_the_tensors_device(claim, compiled):
    toy = claim("toy", "convolve", devices=("xpu",))
    assert [ops.backend_name(kind) for kind in ("cpu", "xpu", "mps")] == ["native", "toy", "reference"]
    assert choice.find("convolve", "xpu", torch.float32) is toy
    assert choice.find("convolve", "cpu", torch.float32) is BACKENDS["native"]
    assert choice.find("spectrum", "xpu", torch.float32) is BACKENDS["reference"]
    assert choice.is_accelerated("convolve", "xpu")
    assert not choice.is_accelerated("spectrum", "xpu")


def test_a_claim_comes_before_that_of_the_package_and_leaves_it_the_other_ops(claim, compiled):
    toy = claim("toy", "convolve", devices=("cpu",), serves=lambda device, dtype: dtype == torch.float32)
    assert ops.backend_name() == "toy"
    assert choice.find("convolve", "cpu", torch.float32) is toy
    assert choice.find("convolve", "cpu", torch.float64) is BACKENDS["native"]
    assert choice.find("spectrum", "cpu", torch.float32) is BACKENDS["native"]


def test_of_two_claims_the_last_that_can_run_is_taken(claim):
    first = claim("first", "convolve", devices=("xpu",))
    assert ops.backend_name("xpu") == "first"
    claim("second", "convolve", devices=("xpu",), unavailable=lambda: "asleep")
    assert choice.find("convolve", "xpu", torch.float32) is first
    claim("third", "convolve", devices=("xpu", "mtia"))
    assert ops.backend_name("xpu") == ops.backend_name("mtia") == "third"


def test_a_device_whose_backend_cannot_run_uses_the_reference_with_one_warning(claim):
    claim("toy", "convolve", devices=("xpu",), unavailable=lambda: "the toy is in the attic")
    with pytest.warns(RuntimeWarning, match="slow reference ops on xpu: the toy is in the attic") as warned:
        assert [ops.backend_name("xpu") for _ in range(3)] == ["reference"] * 3
    assert len(warned) == 1


def test_a_forced_backend_is_that_of_every_device(claim, monkeypatch):
    claim("toy", "convolve", devices=("xpu",))
    monkeypatch.setenv(choice.VARIABLE, "toy")
    assert [ops.backend_name(kind) for kind in ("cpu", "xpu", "cuda")] == ["toy"] * 3
    assert choice.find("spectrum", "cpu", torch.float32) is BACKENDS["reference"]


def test_an_op_on_fake_gpu_tensors_calls_the_backend_of_that_device(claim, monkeypatch):
    """Fake tensors have a device and no numbers; torch's fake of the op is passed by."""
    calls = []
    toy = claim("toy", "convolve", devices=("xpu",))
    monkeypatch.setitem(toy.functions, "convolve", lambda u, K, D: calls.append(u.device.type) or torch.empty_like(u))
    with FakeTensorMode():
        given = [torch.empty(*shape, device="xpu:1") for shape in ((2, 20, 4), (1, 4, 20), (4,))]
        assert registration._run(OPS["convolve"], *given).device == torch.device("xpu:1")
    assert calls == ["xpu"]


@pytest.fixture
def with_gpu(monkeypatch):
    """A machine that says it has Triton and a GPU, and where nothing is launched; the launches, with their devices."""
    monkeypatch.delenv(choice.VARIABLE, raising=False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(choice, "_by_default", choice._by_default.__wrapped__)
    monkeypatch.setattr(launch.importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(launch.importlib.metadata, "version", lambda name: "3.4.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: (8, 0))
    monkeypatch.setattr(spectrum, "_tables", spectrum._new_tables)  # none of fake tensors stay
    launches = []
    for module in (spectrum, step):
        monkeypatch.setattr(module, "run", lambda some, device: launches.extend((call, device) for call in some))
    return launches


def test_tensors_on_a_gpu_go_to_triton_and_others_to_the_compiled_library(with_gpu, compiled):
    for op, dtype, name in (
        ("spectrum", torch.float32, "triton"),
        ("spectrum", torch.float64, "triton"),
        ("spectrum", torch.bfloat16, "reference"),
        ("layer_steps", torch.float32, "triton"),
        ("convolve", torch.float32, "reference"),
        ("convolve", torch.bfloat16, "reference"),
        ("truncate", torch.float32, "reference"),
    ):
        assert choice.find(op, "cuda", dtype) is BACKENDS[name], (op, dtype)
        assert choice.find(op, "cpu", dtype) is BACKENDS["reference" if dtype == torch.bfloat16 else "native"]
        if op in OPS:
            with FakeTensorMode():
                for end in ("", "_backward"):
                    found = choice.function(f"{op}{end}", torch.empty(1, dtype=dtype, device="cuda:1"))
                    assert found is BACKENDS[name].functions[f"{op}{end}"]


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        (lambda patch: patch(torch.cuda, "is_available", lambda: False), "no GPU .CUDA or ROCm."),
        (lambda patch: patch(torch.cuda, "get_device_capability", lambda: (7, 0)), "has compute capability 7.0: Tri"),
        (lambda patch: patch(launch.importlib.metadata, "version", lambda name: "3.2.0"), "Triton 3.2.0 is too old"),
        (lambda patch: patch(launch.importlib.util, "find_spec", lambda name: None), "no Triton found"),
    ],
)
def test_a_gpu_that_triton_does_not_serve_uses_the_reference_with_the_reason(what, reason, with_gpu, monkeypatch):
    what(monkeypatch.setattr)
    with pytest.warns(RuntimeWarning, match=f"slow reference ops on cuda: .*{reason}"):
        assert ops.backend_name("cuda") == "reference"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_spectrum_of_fake_gpu_tensors_is_launched_on_their_device(dtype, with_gpu):
    H, M, L, device = 3, 4, 20, torch.device("cuda", 1)
    with FakeTensorMode(), torch.no_grad():
        sizes = ((H, M, 2), (1, H, M, 2), (H, M, 2), (1, H, M, 2), (H,))
        given = [torch.empty(size, dtype=dtype, device=device) for size in sizes]
        K_hat = registration._run(OPS["spectrum"], *given, L, "auto")
        assert (K_hat.shape, K_hat.dtype, K_hat.device) == ((1, H, L // 2 + 1, 2), dtype, device)
        gradients = registration._run_backward(OPS["spectrum"], K_hat, *given, L, "auto")
        assert [(g.shape, g.dtype, g.device) for g in gradients] == [(t.shape, dtype, device) for t in given]
        by_op = torch.ops.longwave.spectrum(*given, L)
        assert (by_op.shape, by_op.device) == (K_hat.shape, device)
    both = ["spectrum_backward", "spectrum_gradients"]
    once = ["spectrum_forward", *both]
    twice = ["needs_wide", "spectrum_forward", "spectrum_forward", "needs_wide", *both, *both]
    assert [call.kernel for call, _ in with_gpu] == (twice if dtype == torch.float32 else once)
    tensors = [t for call, _ in with_gpu for t in call.arguments if isinstance(t, torch.Tensor)]
    assert {where for _, where in with_gpu} == {t.device for t in tensors} == {device}


def test_steps_of_fake_gpu_tensors_are_launched_on_their_device(with_gpu):
    H, M, device = 3, 4, torch.device("cuda", 1)
    with FakeTensorMode(), torch.no_grad():
        change, low_rank = (torch.empty(*r, H, M, dtype=torch.complex64, device=device) for r in ((), (1,)))
        steps = ops.layer_steps(
            longwave.ssm.DiscreteDPLR(change, low_rank, low_rank, change), change, torch.empty(H, device=device)
        )
        y, state = steps(torch.empty(2, H, device=device), change.new_empty(2, H, M))
    assert (y.shape, y.device, state.shape, state.device) == ((2, H), device, (2, H, M), device)
    assert [(call.kernel, where) for call, where in with_gpu] == [("layer_step", device)]


def test_the_doctor_names_the_backend_of_each_device(claim, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "200")
    claim("toy", "convolve", devices=("xpu",))
    monkeypatch.setattr(check, "device_kinds", lambda: ["cpu", "xpu"])
    assert call("doctor") == 0
    assert f"CPU tensors use: {ops.backend_name()}\nXPU tensors use: toy\n" in capsys.readouterr().out
