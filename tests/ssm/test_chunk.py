import pytest
import torch
from dense import LOW_RANK_INITS, discrete, error, full, gradients, hippo_system, log_uniform, random_system
from hypothesis import given
from hypothesis import strategies as st
from pairwise import in_one_case

from longwave.ssm import Powers, response, state_after
from longwave.ssm.chunk import BLOCK

AROUND_BLOCKS = [1, 2, 3, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 3 * BLOCK + 5]


def real_system(H, N, seed=0):
    """A stable A_bar (H, N, N) that is no DPLR system's, B_bar and C (H, N)."""
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(H, N, N + 2, generator=generator, dtype=torch.float64)
    A_bar = 0.98 * A[..., :N] / torch.linalg.matrix_norm(A[..., :N], 2)[:, None, None]
    return A_bar, A[..., N], A[..., N + 1]


def powers_of(A_bar):
    return Powers(A_bar - torch.eye(A_bar.shape[-1], dtype=A_bar.dtype), A_bar.dtype)


def run(A_bar, B_bar, u, state):
    """Every state after each step (batch, H, L, N), by the recurrence."""
    states = []
    for u_k in u.unbind(-1):
        state = torch.einsum("hmn,bhn->bhm", A_bar, state) + u_k.unsqueeze(-1) * B_bar
        states.append(state)
    return torch.stack(states, dim=2)


def test_powers_are_powers():
    A_bar, _, _ = real_system(3, 6)
    powers, identity = powers_of(A_bar), torch.eye(6, dtype=torch.float64)
    for j in (0, 1, 5, 3):  # in any order
        assert error(powers[j], torch.linalg.matrix_power(A_bar, 2**j) - identity) < 1e-13


@pytest.mark.parametrize("init", LOW_RANK_INITS)
@in_one_case(dtype=[torch.float32, torch.float64])
def test_powers_of_a_dplr_system_move_the_stored_half(init, dtype):
    system = hippo_system(init, 8, log_uniform(2)).to(dtype)
    powers = Powers.of(system.Lambda, system.P, system.dt)
    x = torch.randn(1, 2, 4, dtype=system.Lambda.dtype)
    moved = powers.advance(torch.view_as_real(x).flatten(-2), torch.tensor([37]), 37)
    assert moved.dtype == dtype
    moved = torch.view_as_complex(moved.unflatten(-1, (-1, 2)))
    for h, (A_bar, _) in enumerate(discrete(system)):
        change = full(x[:, h]) @ torch.linalg.matrix_power(A_bar, 37).mT - full(x[:, h])
        assert error(full(moved[:, h]) - full(x[:, h]), change) < (1e-12 if dtype == torch.float64 else 1e-6)


@given(st.lists(st.integers(0, 300), min_size=1, max_size=6), st.integers(0, 1 << 30))
def test_each_row_advances_by_its_own_number_of_steps(steps, seed):
    A_bar, _, _ = real_system(2, 4, seed)
    x = torch.randn(len(steps), 2, 4, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    moved = powers_of(A_bar).advance(x, torch.tensor(steps), max(steps))
    truth = torch.stack(
        [torch.einsum("hmn,hn->hm", torch.linalg.matrix_power(A_bar, s), row) for s, row in zip(steps, x, strict=True)]
    )
    torch.testing.assert_close(moved, truth, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("L", AROUND_BLOCKS)
def test_the_response_is_that_of_the_recurrence_without_input(L):
    A_bar, B_bar, C = real_system(2, 5)
    x = torch.randn(3, 2, 5, dtype=torch.float64)
    truth = torch.einsum("bhln,hn->bhl", run(A_bar, B_bar, torch.zeros(3, 2, L, dtype=torch.float64), x), C)
    y = response(powers_of(A_bar), C, x, L)
    assert y.shape == (3, 2, L)
    assert error(y, truth) < 1e-12


@pytest.mark.parametrize("started", [False, True])
@in_one_case(L=AROUND_BLOCKS)
def test_the_state_after_a_chunk_is_that_of_the_recurrence(L, started):
    A_bar, B_bar, _ = real_system(2, 5)
    u = torch.randn(3, 2, L, dtype=torch.float64)
    x = torch.randn(3, 2, 5, dtype=torch.float64) if started else None
    after = state_after(powers_of(A_bar), B_bar, u, x)
    truth = run(A_bar, B_bar, u, torch.zeros(3, 2, 5, dtype=torch.float64) if x is None else x)[:, :, -1]
    assert error(after, truth) < 1e-12


@given(st.integers(1, 200), st.data())
def test_the_state_after_each_rows_own_length_is_that_of_the_recurrence(L, data):
    lengths = data.draw(st.lists(st.integers(0, L), min_size=1, max_size=4))
    started = data.draw(st.booleans())
    A_bar, B_bar, _ = real_system(2, 3)
    generator = torch.Generator().manual_seed(L)
    u = torch.randn(len(lengths), 2, L, generator=generator, dtype=torch.float64)
    x = torch.randn(len(lengths), 2, 3, generator=generator, dtype=torch.float64) if started else None
    start = torch.zeros(len(lengths), 2, 3, dtype=torch.float64) if x is None else x
    every = torch.cat((start.unsqueeze(2), run(A_bar, B_bar, u, start)), dim=2)
    truth = torch.stack([every[row, :, length] for row, length in enumerate(lengths)])
    after = state_after(powers_of(A_bar), B_bar, u, x, torch.tensor(lengths))
    torch.testing.assert_close(after, truth, rtol=1e-11, atol=1e-12)


def test_what_stands_behind_a_rows_end_has_no_effect():
    A_bar, B_bar, _ = real_system(1, 3)
    u = torch.randn(2, 1, 70, dtype=torch.float64)
    lengths = torch.tensor([10, 69])
    other = u.clone()
    other[0, :, 10:], other[1, :, 69:] = 1e9, -1e9
    assert torch.equal(
        state_after(powers_of(A_bar), B_bar, u, None, lengths),
        state_after(powers_of(A_bar), B_bar, other, None, lengths),
    )


@pytest.mark.parametrize("L", [1, 5, BLOCK + 3])
def test_gradients_equal_those_of_the_recurrence(L):
    A_bar, B_bar, C = (t.requires_grad_() for t in real_system(2, 3))
    u = torch.randn(2, 2, L, dtype=torch.float64, requires_grad=True)
    x = torch.randn(2, 2, 3, dtype=torch.float64, requires_grad=True)
    inputs = (A_bar, B_bar, C, u, x)
    states = run(A_bar, B_bar, u, x)
    free = run(A_bar, B_bar, torch.zeros_like(u), x)
    truth = gradients(torch.einsum("bhln,hn->bhl", free, C).sum(-1) + states[:, :, -1].sum(-1), inputs)
    powers = powers_of(A_bar)
    fast = response(powers, C, x, L).sum(-1) + state_after(powers, B_bar, u, x).sum(-1)
    for value, true in zip(gradients(fast, inputs), truth, strict=True):
        assert error(value, true) < 1e-11


def test_powers_carry_gradients_to_the_systems_parameters():
    system = random_system(2, 3, 2).leaves()
    inputs = (system.Lambda, system.P, system.dt)
    x = torch.randn(1, 2, 3, dtype=torch.complex128)
    moved = Powers.of(*inputs).advance(torch.view_as_real(x).flatten(-2), torch.tensor([11]), 15)
    dense = [
        (full(x[:, h]) @ torch.linalg.matrix_power(A_bar, 11).mT)[:, :3]
        for h, (A_bar, _) in enumerate(discrete(system))
    ]
    truth = gradients(torch.view_as_real(torch.stack(dense, dim=1)).flatten(-2), inputs)
    for value, true in zip(gradients(moved, inputs), truth, strict=True):
        assert error(value, true) < 1e-11
