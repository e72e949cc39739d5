"""Bad input: a ValueError that names the argument, what came and what was expected."""

import math

import pytest
import torch
from pairwise import in_one_case

from longwave import S4
from longwave.ssm import INITS

pytestmark = pytest.mark.usefixtures("unchecked")

H, M = 4, 3


def layer(**options):
    return S4(H, 2 * M, **options)


def zeros(*shape, dtype=torch.float32):
    return torch.zeros(*shape, dtype=dtype)


STATE = zeros(2, H, M, dtype=torch.complex64)


@pytest.mark.parametrize("name", ["d_model", "d_state", "length", "n_ssm"])
@in_one_case(value=[0, -2, 4.0, "4", True, math.nan])
def test_a_count_that_is_none_is_refused(name, value):
    sizes = {"d_model": 4, "d_state": 4} | {name: value}
    with pytest.raises(ValueError, match=f"^{name}: expected a whole number, at least 1, got {value!r}$"):
        S4(**sizes)


@pytest.mark.parametrize("name", ["d_model", "d_state"])
def test_a_size_of_none_is_refused(name):
    with pytest.raises(ValueError, match=f"^{name}: expected a whole number, at least 1, got None$"):
        S4(**{"d_model": 4, "d_state": 4} | {name: None})


@pytest.mark.parametrize("d_state", [1, 7])
def test_an_odd_state_is_refused(d_state):
    with pytest.raises(ValueError, match=rf"^d_state: expected an even number \(.*pairs\), got {d_state}$"):
        S4(4, d_state)


@pytest.mark.parametrize("init", ["legsx", "", "LegS", None])
def test_an_unknown_init_is_refused_with_the_known_ones(init):
    with pytest.raises(ValueError, match=f"^init: expected one of {', '.join(sorted(INITS))}, got {init!r}$"):
        S4(4, 4, init=init)


@pytest.mark.parametrize("transform", ["square", "Exp", None])
def test_an_unknown_transform_of_dt_is_refused_with_the_known_ones(transform):
    with pytest.raises(ValueError, match=f"^dt_transform: expected one of exp, softplus, got {transform!r}$"):
        S4(4, 4, dt_transform=transform)


@pytest.mark.parametrize("n_ssm", [3, 5, 8])
def test_an_n_ssm_that_does_not_divide_is_refused(n_ssm):
    with pytest.raises(ValueError, match=f"^n_ssm: expected a divisor of d_model = 4, got {n_ssm}$"):
        S4(4, 4, n_ssm=n_ssm)


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 0.1), (-0.1, 0.1), (0.2, 0.1), (math.nan, 0.1), (0.01, math.nan), (0.01, math.inf), (math.inf, math.inf)],
)
def test_bounds_of_dt_that_are_none_are_refused(low, high):
    with pytest.raises(
        ValueError, match=r"^dt_min, dt_max: expected 0 < dt_min <= dt_max, both finite, got "
    ) as caught:
        S4(4, 4, dt_min=low, dt_max=high)
    assert str(caught.value).endswith(f"got {low} and {high}")


@pytest.mark.parametrize(
    ("u", "came"),
    [
        (zeros(2, 5), r"torch\.float32 \(2, 5\)"),
        (zeros(2, 5, H, 1), r"torch\.float32 \(2, 5, 4, 1\)"),
        (zeros(2, 5, H + 1), r"torch\.float32 \(2, 5, 5\)"),
        (zeros(2, H, 5), r"torch\.float32 \(2, 4, 5\)"),
        (zeros(2, 5, H, dtype=torch.int64), r"torch\.int64 \(2, 5, 4\)"),
        (zeros(2, 5, H, dtype=torch.complex64), r"torch\.complex64 \(2, 5, 4\)"),
        (zeros(2, 5, H).numpy(), r"a numpy array float32 \(2, 5, 4\); call torch\.from_numpy\(u\)$"),
        (
            zeros(2, 5, H, dtype=torch.float64).numpy(),
            r"a numpy array float64 .*; call torch\.from_numpy\(u\)\.float\(\)$",
        ),
        ([1.0] * 100, r"\[1\.0, 1\.0, 1\.0, 1\.0, 1\.0, 1\.0, \.\.\.\]$"),
        ([1.0, 2.0], r"\[1\.0, 2\.0\]"),
        (None, "None"),
    ],
)
def test_a_wrong_input_is_refused(u, came):
    with pytest.raises(ValueError, match=rf"^u: expected a floating-point tensor \(batch, L, 4\), got {came}"):
        layer()(u)


@pytest.mark.parametrize("shape", [(0, 5, H), (2, 0, H)])
def test_an_empty_input_is_refused(shape):
    with pytest.raises(ValueError, match=r"^u: expected at least one row and one step, got torch\.float32 "):
        layer()(zeros(*shape))


@pytest.mark.parametrize(
    ("u", "came"),
    [
        (zeros(2, 1, H), r"torch\.float32 \(2, 1, 4\)"),
        (zeros(2, H + 1), r"torch\.float32 \(2, 5\)"),
        (zeros(H), r"torch\.float32 \(4,\)"),
        (zeros(2, H, dtype=torch.int32), r"torch\.int32 \(2, 4\)"),
        (1.0, r"1\.0"),
    ],
)
def test_a_wrong_input_of_a_step_is_refused(u, came):
    with pytest.raises(ValueError, match=rf"^u: expected a floating-point tensor \(batch, 4\), got {came}$"):
        layer().step(u, STATE)


WRONG_STATES = [
    (zeros(1, H, M, dtype=torch.complex64), r"torch\.complex64 \(1, 4, 3\)"),
    (zeros(2, H, 2 * M, dtype=torch.complex64), r"torch\.complex64 \(2, 4, 6\)"),
    (zeros(2, M, H, dtype=torch.complex64), r"torch\.complex64 \(2, 3, 4\)"),
    (zeros(2, H, M), r"torch\.float32 \(2, 4, 3\)"),
    (zeros(2, H, M, 2), r"torch\.float32 \(2, 4, 3, 2\)"),
    ((STATE,), r"tuple\(torch\.complex64 \(2, 4, 3\)\)"),
    (0, "0"),
]


@pytest.mark.parametrize(("state", "came"), WRONG_STATES)
def test_a_wrong_state_is_refused(state, came):
    message = (
        rf"^state: expected a complex tensor \(2, 4, 3\), as returned by initial_state or an earlier call, got {came}"
    )
    with pytest.raises(ValueError, match=message):
        layer()(zeros(2, 5, H), state)
    with pytest.raises(ValueError, match=message):
        layer().step(zeros(2, H), state)


@pytest.mark.parametrize("call", ["forward", "step", "kernel"])
@in_one_case(rate=[0, 0.0, -1.0, math.nan, math.inf, -math.inf])
def test_a_rate_that_is_none_is_refused(rate, call):
    calls = {
        "forward": lambda s4: s4(zeros(2, 5, H), rate=rate),
        "step": lambda s4: s4.step(zeros(2, H), STATE, rate=rate),
        "kernel": lambda s4: s4.kernel(5, rate=rate),
    }
    with pytest.raises(ValueError, match=r"^rate: expected a finite number above 0 .*, got " + str(rate)):
        calls[call](layer())


@pytest.mark.parametrize("rate", ["2", None, [1.0]])
@pytest.mark.parametrize("call", ["forward", "kernel"])
def test_a_rate_that_is_no_number_is_refused(rate, call):
    with pytest.raises((ValueError, TypeError)):
        layer()(zeros(2, 5, H), rate=rate) if call == "forward" else layer().kernel(5, rate=rate)


@pytest.mark.parametrize(
    ("lengths", "came"),
    [
        (torch.tensor([1]), r"torch\.int64 \(1,\)"),
        (torch.tensor([1, 2, 3]), r"torch\.int64 \(3,\)"),
        (torch.tensor([[1, 2]]), r"torch\.int64 \(1, 2\)"),
        (torch.tensor(3), r"torch\.int64 \(\)"),
        (torch.tensor([1.0, 2.0]), r"torch\.float32 \(2,\)"),
        (torch.tensor([True, False]), r"torch\.bool \(2,\)"),
        (torch.tensor([1j, 2j]), r"torch\.complex64 \(2,\)"),
        (7, r"torch\.int64 \(\)"),
    ],
)
def test_wrong_lengths_are_refused(lengths, came):
    with pytest.raises(ValueError, match=rf"^lengths: expected 2 whole numbers, one per row, got {came}$"):
        layer()(zeros(2, 5, H), lengths=lengths)


@pytest.mark.parametrize("lengths", [[-1, 3], [2, 6], [-5, 99]])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_lengths_out_of_range_are_refused(lengths, bidirectional):
    low, high = min(lengths), max(lengths)
    with pytest.raises(ValueError, match=f"^lengths: expected numbers from 0 to 5, got {low} to {high}$"):
        layer(bidirectional=bidirectional)(zeros(2, 5, H), lengths=torch.tensor(lengths))


@pytest.mark.parametrize("L", [0, -1, 2.0, None, True])
def test_a_kernel_of_no_length_is_refused(L):
    with pytest.raises(ValueError, match=f"^L: expected a whole number, at least 1, got {L!r}$"):
        layer().kernel(L)


@pytest.mark.parametrize("batch", [0, -1, 1.0, None])
def test_an_initial_state_of_no_batch_is_refused(batch):
    with pytest.raises(ValueError, match=f"^batch: expected a whole number, at least 1, got {batch!r}$"):
        layer().initial_state(batch)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("initial_state", lambda s4: s4.initial_state(2)),
        ("step", lambda s4: s4.step(zeros(2, H), STATE)),
        ("state", lambda s4: s4(zeros(2, 5, H), STATE)),
    ],
)
def test_a_two_sided_layer_refuses_states_and_says_what_to_do(name, call):
    with pytest.raises(ValueError, match=rf"^{name}: a bidirectional layer has no state.*bidirectional=False"):
        call(layer(bidirectional=True))


def test_an_unknown_option_is_refused():
    with pytest.raises(TypeError, match="l_max"):
        S4(4, 4, l_max=1024)
    with pytest.raises(TypeError, match="positional"):
        S4(4, 4, "legs")


def test_a_refused_call_leaves_the_layer_as_it_was():
    s4, u = layer(), torch.randn(2, 5, H)
    y, state = s4(u)
    for bad in (lambda: s4(u, rate=0), lambda: s4(u, STATE[:1]), lambda: s4.step(u, state)):
        with pytest.raises(ValueError, match="expected"):
            bad()
    assert torch.equal(s4(u)[0], y)
