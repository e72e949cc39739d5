"""What every op does with tensors of another device, dtype, shape or layout, with bits set, strided, or empty."""

import itertools

import pytest
import torch
from pairwise import CPU_BACKENDS
from torch._subclasses.fake_tensor import FakeTensorMode

from longwave.ops import BACKENDS, Affine, BlockWeights
from longwave.ops.cpu import step as native
from longwave.ops.cpu.model_step import BlockSteps
from longwave.ssm import dplr_bilinear

# The arguments of each op by their sizes (two features fill no vector: 40 take the compiled path of the convolution).
SYSTEM = {"Lambda": "HM2", "P": "rHM2", "B": "HM2", "C": "DHM2", "dt": "H"}
NO_P = {name: sizes for name, sizes in SYSTEM.items() if name != "P"}
NO_B = {name: sizes for name, sizes in SYSTEM.items() if name != "B"}
SIGNAL = {"u": "bLH", "K": "sHL", "D": "H"}
ACTIVATION = {"z": "bLH", "keep": "bH"}
GATED = {**ACTIVATION, "weight": "GH", "bias": "G"}
STEP = {"change": "HM2", "left": "rHM2", "right": "rHM2"}
BLOCKS = {"columns": "HTN", "E": "HNN", "u": "bLH"}
SCAN = {**STEP, "B_bar": "HN", "u": "bLH", "start": "bHN", "lengths": "b"}
# In float64 whatever the signals are: what is derived from the parameters.
WIDE = {"change", "left", "right", "B_bar", "columns", "rows", "E"}
OPS = {
    "krylov": {**STEP, "start": "HN"},
    "krylov_backward": {"grad": "HTN", **STEP, "start": "HN"},
    "power": STEP,
    "power_backward": {"grad": "HNN", **STEP},
    "collect": {**BLOCKS, "start": "bHN", "lengths": "b"},
    "collect_backward": {"grad": "bHN", **BLOCKS, "lengths": "b", "kept": "bHcN"},
    "spread": {"rows": "HTN", "E": "HNN", "start": "bHN"},
    "spread_backward": {"grad": "bLH", "rows": "HTN", "E": "HNN", "kept": "bHCN"},
    "scan": SCAN,
    "scan_backward": {"grad": "beHN", **SCAN, "out": "beHN"},
    "spectrum": SYSTEM,
    "spectrum_backward": {"grad": "DHF2", **SYSTEM},
    "irfft": {"K_hat": "DHF2"},
    "irfft_backward": {"grad": "DHL"},
    "truncate": NO_B,
    "truncate_backward": {"grad": "DHM2", **NO_B},
    "power_sum": NO_P,
    "power_sum_backward": {"grad": "DHL", **NO_P},
    "convolve": SIGNAL,
    "convolve_backward": {"grad": "bLH", **SIGNAL},
    "activate": ACTIVATION,
    "activate_backward": {"grad": "bLH", **ACTIVATION},
    "mix": {**ACTIVATION, "weight": "oH", "bias": "o"},
    "mix_backward": {"grad": "bLo", **ACTIVATION, "weight": "oH"},
    "gate": {"x": "bLH", "z": "bLG", "bias": "G"},
    "gate_backward": {"grad": "bLH", "z": "bLG", "bias": "G"},
    "gated_mix": {"x": "bLH", **GATED},
    "gated_mix_backward": {"grad": "bLH", **GATED},
}
ALONE = {"spread": "start", "irfft": "K_hat", "irfft_backward": "grad"}  # the only signal: of either dtype
ALL_WIDE = {"krylov", "krylov_backward", "power", "power_backward"}
OF_A_SYSTEM = [name for name in OPS if "Lambda" in OPS[name]]
every_op = pytest.mark.parametrize("name", OPS)


@pytest.fixture
def backends(monkeypatch):
    """Every backend that can run here, each forced while a loop is at it. One that is there and does not work fails."""

    def in_turn():
        for name in sorted(CPU_BACKENDS):
            reason = BACKENDS[name].unavailable()
            assert reason is None or "no compiled library" in reason
            if reason is None:
                monkeypatch.setenv("LONGWAVE_KERNEL", name)
                yield name

    return in_turn


def arguments(name, **sizes):
    """Tensors for an op, and what else it takes."""
    sizes = {"b": 2, "L": 9, "H": 40, "M": 3, "r": 1, "D": 1, "s": 2, "o": 5, "2": 2, "T": 2} | sizes
    sizes |= {"G": 2 * sizes["H"], "F": sizes["L"] // 2 + 1, "N": 2 * sizes["M"], "e": sizes["L"] // 4}
    sizes |= {"c": sizes["L"] // sizes["T"], "C": -(-sizes["L"] // sizes["T"])}
    tensors = {key: torch.randn([sizes[size] for size in letters]) for key, letters in OPS[name].items()}
    for key in tensors:
        if key in WIDE or name in ALL_WIDE:
            tensors[key] = tensors[key].double() / 10
    if "lengths" in tensors:
        tensors["lengths"] = torch.full((sizes["b"],), sizes["L"])
    for key in {"Lambda", "dt"} & tensors.keys():
        tensors[key] = -tensors[key].abs() - 0.1 if key == "Lambda" else tensors[key].abs() / 10 + 0.01
    more = {
        "mix_backward": [True],
        "krylov": [sizes["T"], False],
        "krylov_backward": [sizes["T"], False],
        "power": [sizes["T"]],
        "power_backward": [sizes["T"]],
        "collect": [True],
        "collect_backward": [True],
        "spread": [sizes["L"], True],
        "scan": [4],
        "scan_backward": [4],
        "irfft": [sizes["L"]],
        "irfft_backward": [sizes["L"]],
    }.get(name, [sizes["L"]] if name in OF_A_SYSTEM else [])
    return tensors, [*more, "zoh"] if "power_sum" in name else more


def call(name, tensors, more):
    result = getattr(torch.ops.longwave, name)(*tensors.values(), *more)
    return list(result) if isinstance(result, list | tuple) else [result]


def same(results, expected):
    return all(torch.equal(a, b) for a, b in zip(results, expected, strict=True))


def spread(t):
    """The same numbers with others between them, from an odd place on."""
    room = torch.zeros(2 * t.numel() + 1, dtype=t.dtype)
    room[1::2] = t.flatten()
    return room[1::2].view(t.shape) if t.numel() else t


def test_every_op_is_in_the_table():
    registered = {
        name.split("::")[1] for name in torch._C._dispatch_get_all_op_names() if name.startswith("longwave::")
    }
    assert {name.split(".")[0] for name in registered} == set(OPS)


@every_op
def test_a_tensor_on_another_device_is_refused(name, backends):
    tensors, more = arguments(name)
    for _ in backends():
        for key in tensors:
            for moved in ({key}, tensors.keys() - {key}) if len(tensors) > 1 else ():
                given = {k: t.to("meta") if k in moved else t for k, t in tensors.items()}
                with pytest.raises(ValueError, match=r"^\w+: expected .* on (cpu|meta) beside .*; call \w+\.to\('"):
                    call(name, given, more)


@every_op
def test_tensors_without_numbers_give_tensors_without_numbers(name, backends):
    tensors, more = arguments(name)
    for _ in backends():
        results = call(name, {key: t.to("meta") for key, t in tensors.items()}, more)
        assert all(result.is_meta for result in results)
        assert [(r.shape, r.dtype) for r in results] == [(r.shape, r.dtype) for r in call(name, tensors, more)]


@every_op
def test_another_dtype_is_refused(name, backends):
    tensors, more = arguments(name)
    dtypes = (torch.float64, torch.bfloat16, torch.int32, torch.complex64)
    for _ in backends():
        for key, dtype in itertools.product(tensors, dtypes):
            alone = key == ALONE.get(name)
            if tensors[key].dtype != dtype and not (alone and dtype == torch.float64):
                with pytest.raises(ValueError, match=r"^\w+: expected .*torch\."):
                    call(name, {**tensors, key: tensors[key].to(dtype)}, more)


@every_op
def test_another_shape_is_refused(name, backends):
    tensors, more = arguments(name)
    for _ in backends():
        for key, t in tensors.items():
            for wrong in (t.unsqueeze(0), t[..., :-1], t.new_zeros(())):
                with pytest.raises(ValueError, match=r"^\w+: expected .*got torch\.(float32|float64|int64)"):
                    call(name, {**tensors, key: wrong}, more)


@every_op
def test_another_layout_is_refused(name, backends):
    tensors, more = arguments(name)
    for _ in backends():
        for key, t in tensors.items():
            with pytest.raises(ValueError, match=rf"^{key}: expected .*got .* in layout torch\.sparse_coo"):
                call(name, {**tensors, key: t.to_sparse()}, more)


@every_op
def test_strides_change_nothing(name, backends):
    """But for the last digit, where a product of torch's own takes another way through strided weights."""
    tensors, more = arguments(name)
    for _ in backends():
        results = call(name, {key: spread(t) for key, t in tensors.items()}, more)
        for result, expected in zip(results, call(name, tensors, more), strict=True):
            torch.testing.assert_close(result, expected, rtol=1e-6, atol=1e-6 * expected.abs().max().item())


@every_op
def test_the_negative_bit_is_heeded(name, backends):
    """By the op, and by the backend itself: torch resolves the bit on the way to an op, but not in a compiled graph."""
    tensors, more = arguments(name)
    for backend in backends():
        expected = call(name, tensors, more)
        function = BACKENDS[backend].functions.get(name, BACKENDS["reference"].functions[name])
        for key, t in tensors.items():
            if key == "lengths":  # no bit negates a whole number
                continue
            given = {**tensors, key: torch._neg_view(-t)}
            assert given[key].is_neg()
            assert same(call(name, given, more), expected)
            result = function(*given.values(), *more)
            assert same(result if isinstance(result, list | tuple) else [result], expected)


@every_op
def test_what_is_empty_gives_nothing_or_is_refused(name, backends):
    sizes = [size for size in "bLHM" if size in "".join(OPS[name].values())]
    for _ in backends():
        for empty in sizes:
            tensors, more = arguments(name, **{empty: 0})
            if (
                (name in OF_A_SYSTEM and empty in "LM")
                or ("change" in tensors and empty == "M")
                or (("rows" in tensors or "irfft" in name) and empty == "L")
            ):
                message = r"^((Lambda|change): expected at least one state|L: expected a length)"
                with pytest.raises(ValueError, match=message):
                    call(name, tensors, more)
                continue
            results = call(name, tensors, more)
            shapes = [r.shape for r in call(name, {key: t.to("meta") for key, t in tensors.items()}, more)]
            assert [r.shape for r in results] == shapes
            if name == "collect_backward" and empty == "L":
                assert torch.equal(results.pop(), tensors["grad"])  # the state stays what it was
            if name.endswith("backward"):
                assert all((r == 0).all() for r in results)  # nothing has a say in nothing
            elif name == "mix":
                assert (results[0] == tensors["bias"]).all()


# The step, which is no op


def step_arguments():
    H, M = 5, 3
    z = torch.randn(H, M, dtype=torch.complex64)
    constants = native.pack_step(*dplr_bilinear(z, z.unsqueeze(0), z, torch.rand(H)), z)
    state = torch.randn(2, H, M, dtype=torch.complex64)
    return {"constants": constants, "D": torch.randn(H), "u": torch.randn(2, H), "state": state}


@pytest.mark.parametrize("wrong", ["constants", "D", "u", "state"])
def test_a_step_refuses_what_it_cannot_read(compiled, wrong):
    given = step_arguments()
    t = given[wrong]
    other = torch.complex128 if t.is_complex() else torch.float64
    fake = FakeTensorMode().from_tensor(t)
    for bad in (t.to("meta"), t.to(other), t.to_sparse(), fake, t[..., :-1]):
        with pytest.raises(ValueError, match=r"^\w+: expected torch\.\w+ \(.*\) in CPU memory.*, got"):
            native.step(**{**given, wrong: bad})


@pytest.mark.parametrize("strange", ["constants", "D", "u", "state"])
def test_a_step_heeds_bits_and_strides(compiled, strange):
    given = step_arguments()
    expected, t = native.step(**given), given[strange]
    alike = [spread(t), torch._neg_view(-t), torch._neg_view(-spread(t))]
    if t.is_complex():
        alike += [t.conj().resolve_conj().conj(), torch._neg_view(-t.conj().resolve_conj().conj())]
    for other in alike:
        assert same(native.step(**{**given, strange: other}), expected)


def test_a_step_of_no_rows_gives_none(compiled):
    given = step_arguments()
    y, after = native.step(given["constants"], given["D"], given["u"][:0], given["state"][:0])
    assert (y.shape, after.shape) == ((0, 5), (0, 5, 3))


def block(H=16, M=3, widen=16):
    z = torch.randn(H, M, dtype=torch.complex64)
    discrete = dplr_bilinear(z, z.unsqueeze(0), z, torch.rand(H))
    norm = Affine(torch.rand(H), torch.rand(H), 1e-5)
    feed_forward = norm, (torch.randn(widen, H), torch.randn(widen)), (torch.randn(H, widen), torch.randn(H))
    return BlockWeights(discrete, z, torch.randn(H), True, norm, (torch.randn(H, H), torch.randn(H)), feed_forward)


def test_the_steps_of_blocks_refuse_what_they_cannot_change_in_place(compiled):
    steps = BlockSteps([block(), block()])
    x, states = torch.randn(2, 16), [torch.randn(2, 16, 3, dtype=torch.complex64) for _ in range(2)]
    steps(x, states)
    fake = FakeTensorMode().from_tensor
    for bad in (x.to("meta"), x.double(), x.to_sparse(), fake(x), spread(x), torch._neg_view(x), x[:, :8]):
        with pytest.raises(ValueError, match=r"^x: expected torch\.float32 \(2, 16\) in CPU memory"):
            steps(bad, states)
    s = states[0]
    for bad in (s.to("meta"), s.to(torch.complex128), fake(s), spread(s), torch._neg_view(s), s.conj(), s[:1]):
        with pytest.raises(ValueError, match=r"^state: expected torch\.complex64 \(2, 16, 3\) in CPU memory"):
            steps(x, [states[1], bad])
    with pytest.raises(ValueError, match="zip"):
        steps(x, states[:1])


def test_the_steps_of_blocks_refuse_weights_that_do_not_fit(compiled):
    good = block()
    scale, wide = torch.rand(8), (torch.randn(16, 32), torch.randn(16))
    for wrong, name in (
        ({"discrete": type(good.discrete)(*(t[..., :8, :] for t in good.discrete)), "C": good.C[:8]}, "change"),
        ({"norm": Affine(scale, scale, 1e-5)}, "scale"),
        ({"linear": wide}, r"linear\.weight"),
        ({"linear": (good.linear[0], torch.randn(8))}, r"linear\.bias"),
        ({"feed_forward": (good.norm, wide, good.feed_forward[2])}, r"widen\.weight"),
        ({"feed_forward": (good.norm, good.feed_forward[1], wide)}, r"narrow\.weight"),
    ):
        with pytest.raises(ValueError, match=f"^{name}: expected .* in a block of 16 features, got"):
            BlockSteps([good._replace(**wrong)])


def test_tensors_that_are_no_plain_memory_are_not_compared_by_their_bytes(compiled):
    t = torch.randn(3, 4)
    assert native.same([t], [t.clone()]) is True
    assert native.same([t], [t + 1]) is False
    assert native.same([t], [t.double()]) is False
    assert native.same([t], [t.flatten()]) is False
    for strange in (t.to("meta"), spread(t), torch._neg_view(t), FakeTensorMode().from_tensor(t)):
        assert native.same([strange], [t.clone()]) is None
    assert native.same([t], [t.to("meta")]) is None


def test_states_that_were_good_once_are_looked_at_again_when_they_have_moved(compiled):
    steps = BlockSteps([block()])
    x, state = torch.randn(2, 16), torch.randn(2, 16, 3, dtype=torch.complex64)
    for _ in range(2):
        steps(x, [state])
    with pytest.raises(ValueError, match=r"^state: expected torch\.complex64 \(1, 16, 3\)"):
        steps(x[:1], [state])
    state.data = torch.randn(2, 16, 3, dtype=torch.complex128)
    with pytest.raises(ValueError, match=r"^state: expected torch\.complex64 \(2, 16, 3\)"):
        steps(x, [state])
    state.data = torch.zeros(2, 16, 3, dtype=torch.complex64)
    steps(x, [state])
    assert state.abs().max() > 0
