"""Rounding in very long recurrences: a state space that is stepped for 100,000 steps does not drift away.

The error of a state goes through the same recurrence as the state. Under constant input the rounding is the same in
each step, so the error grows until the system has settled and is flat from there on. With LagT, whose eigenvalues are
all -1/2 in one Jordan block, a system of N states takes about 4 N / dt steps to settle: 26,000 here.
"""

import pytest
import torch

from longwave import S4, ops

N, DT = 64, (0.1, 0.03, 0.01)
CHUNK, LOOKS = 1000, (40_000, 70_000, 100_000)
# Of the largest number of the state in float64: twice the 8e-6, 1.6e-5 and 1.8e-5 that were measured.
BOUNDS = {"legs": 2e-5, "legt": 4e-5, "lagt": 4e-5}


@pytest.mark.slow
@pytest.mark.parametrize("init", BOUNDS)
def test_steps_in_float32_stay_near_the_truth_and_do_not_drift(init, compiled):
    """Random, constant and no input, the latter from a state that fades; the truth is float64, in chunks."""
    errors = drift(init)
    assert max(errors["random"].max(), errors["constant"].max()) < BOUNDS[init]
    assert errors["none"][-1].max() < 1e-12  # of the state that it began with
    assert (errors["constant"][1:] < 1.05 * errors["constant"][0] + 1e-7).all()


def drift(init):
    """The largest errors of the state after some numbers of steps, (looks, features), by kind of input."""
    torch.manual_seed(0)
    layer = S4(d_model=len(DT), d_state=N, init=init)
    with torch.no_grad():
        layer.log_dt.copy_(torch.tensor(DT).log().view_as(layer.log_dt))
    exact = S4(d_model=len(DT), d_state=N, init=init).double()
    exact.load_state_dict({name: values.double() for name, values in layer.state_dict().items()})
    state = torch.zeros(3, len(DT), N // 2, dtype=torch.complex64)
    state[2] = torch.randn(len(DT), N // 2, dtype=torch.complex64)
    scale, truth, found = state[2].abs().max(), state.to(torch.complex128), {"random": [], "constant": [], "none": []}
    with torch.no_grad():
        steps = ops.layer_steps(*layer.step_constants()[:3])
        for count in range(0, LOOKS[-1], CHUNK):
            u = torch.stack([torch.randn(CHUNK, len(DT)), torch.ones(CHUNK, len(DT)), torch.zeros(CHUNK, len(DT))])
            _, truth = exact(u.double(), truth)
            for u_t in u.unbind(1):
                _, state = steps(u_t.contiguous(), state)
            if count + CHUNK in LOOKS:
                error = (state - truth).abs().amax(-1)
                size = truth.abs().amax(-1).where(torch.tensor([[True], [True], [False]]), scale.double())
                for row, kind in enumerate(found):
                    found[kind].append(error[row] / size[row])
    return {kind: torch.stack(errors) for kind, errors in found.items()}
