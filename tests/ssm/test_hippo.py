import math

import pytest
import torch
from dense import dense_bilinear, dense_kernel, error, full, hippo_system
from hypothesis import given
from hypothesis import strategies as st
from pairwise import in_one_case
from scipy import special

from longwave.ssm import INITS, dplr, hippo, nplr, power_kernel

SIZES = [*range(2, 65, 2), 96, 128, 200, 256, 384, 512]
RANK = {"legs": 1, "legt": 2, "lagt": 1, "fout": 1, "random-nplr": 1, "s4d-legs": 0, "s4d-lin": 0, "s4d-inv": 0}
# Each initialisation as it is, and the generalised Laguerre ones with parameters that are not round.
FAMILIES = [*((name, {}) for name in INITS), ("lagt", {"alpha": 0.37, "beta": 1.21}), ("lagt", {"alpha": -0.6})]
BY_EIGENVECTORS = {"legs", "legt", "lagt"}  # the others are diagonal as they are written down: few sizes will do

families = pytest.mark.parametrize(("name", "parameters"), FAMILIES, ids=str)


def sizes(name, parameters=()):
    if name not in BY_EIGENVECTORS:
        return (2, 4, 6, 64)
    return [N for N in SIZES if N <= 128] if parameters else SIZES


@pytest.fixture(autouse=True)
def _same_draws():
    torch.manual_seed(0)


def scale(A):
    return max(1.0, A.abs().max().item())


def legendre(N, x):
    """The first N Legendre polynomials at x, normalised on an interval of length 1."""
    return torch.tensor([math.sqrt(2 * n + 1) * special.eval_legendre(n, x) for n in range(N)])


# The matrices are the paper's


def test_legs_is_equation_2_of_the_paper():
    A, B = hippo("legs", 6)
    for n in range(6):
        assert B[n].item() == math.sqrt(2 * n + 1)
        for k in range(6):
            expected = math.sqrt(2 * n + 1) * math.sqrt(2 * k + 1) if n > k else n + 1 if n == k else 0
            assert A[n, k].item() == pytest.approx(-expected, rel=1e-15)


def test_legt_is_the_papers_final_form_up_to_its_diagonal_scaling():
    A, B = hippo("legt", 4)
    signs = torch.tensor([[-1, 1, -1, 1], [-1, -1, 1, -1], [-1, -1, -1, 1], [-1, -1, -1, -1]], dtype=torch.float64)
    torch.testing.assert_close(A / torch.outer(B, B), signs, rtol=1e-14, atol=0)
    torch.testing.assert_close(B**2, torch.tensor([1.0, 3, 5, 7], dtype=torch.float64))


def test_lagt_is_the_papers_matrix():
    A, B = hippo("lagt", 6)
    assert torch.equal(A, -torch.ones(6, 6, dtype=torch.float64).tril(-1) - 0.5 * torch.eye(6, dtype=torch.float64))
    torch.testing.assert_close(B, torch.ones(6, dtype=torch.float64))


@pytest.mark.parametrize("t", [0.0, 0.13, 0.9, 2.7])
def test_legs_remembers_in_legendre_polynomials_of_exponential_time(t):
    A, B = hippo("legs", 12)
    expected = math.exp(-t) * legendre(12, 2 * math.exp(-t) - 1)
    assert error(torch.linalg.matrix_exp(A * t) @ B, expected) < 1e-12


def test_legt_remembers_a_window_of_length_1_in_legendre_polynomials():
    A, B = hippo("legt", 256)
    for t in (0.21, 0.5, 0.77):
        assert error((torch.linalg.matrix_exp(A * t) @ B)[:4], legendre(4, 1 - 2 * t)) < 0.1
    assert (torch.linalg.matrix_exp(A * 1.5) @ B)[:4].abs().max() < 0.1


@given(st.floats(-0.9, 3), st.floats(0, 3), st.floats(0, 5))
def test_lagt_remembers_in_generalised_laguerre_polynomials(alpha, beta, t):
    A, B = hippo("lagt", 10, alpha=alpha, beta=beta)
    polynomials = torch.tensor(special.eval_genlaguerre(range(10), alpha, t))
    assert error(torch.linalg.matrix_exp(A * t) @ B, math.exp(-(1 + beta) / 2 * t) * polynomials) < 1e-11


# Normal plus low-rank


@families
def test_the_correction_makes_a_normal(name, parameters):
    for N in sizes(name):
        A, _, P = nplr(name, N, **parameters)
        normal = A + P.T @ P
        commutator = normal @ normal.T - normal.T @ normal
        assert P.shape == (RANK.get(name, len(P)), N)
        assert commutator.abs().max() < 1e-13 * N * scale(normal) ** 2


@families
def test_a_is_stable_by_its_symmetric_part(name, parameters):
    for N in sizes(name):
        A, _ = hippo(name, N, **parameters)
        assert torch.linalg.eigvalsh(A + A.T).max() <= 1e-12 * N * scale(A)


def test_legs_decays_and_legt_and_lagt_lose_energy_only_through_the_correction():
    for name, damping in (("legs", 0.5), ("legt", 0.0), ("lagt", 0.0)):
        A, _, P = nplr(name, 32)
        symmetric = (A + A.T) / 2 + P.T @ P
        torch.testing.assert_close(symmetric, -damping * torch.eye(32, dtype=torch.float64), rtol=0, atol=1e-13)


# Diagonal plus low-rank


@families
def test_v_is_unitary_and_gives_a_and_b_back(name, parameters):
    for N in sizes(name, parameters):
        torch.manual_seed(0)  # of those that are random
        A, B = hippo(name, N, **parameters)
        torch.manual_seed(0)
        Lambda, P, B_stored, V = dplr(name, N, **parameters)
        assert (Lambda.shape, P.shape[1:], B_stored.shape, V.shape) == ((N // 2,), (N // 2,), (N // 2,), (N, N // 2))
        assert all(t.dtype == torch.complex128 for t in (Lambda, P, B_stored, V))
        V, P = full(V), full(P)
        identity = torch.eye(N, dtype=torch.complex128)
        assert (V.mH @ V - identity).abs().max() < 1e-10
        assert (V @ V.mH - identity).abs().max() < 1e-10
        assert (V @ (torch.diag(full(Lambda)) - P.mT @ P.conj()) @ V.mH - A).abs().max() < 1e-10 * scale(A)
        assert (V @ full(B_stored) - B).abs().max() < 1e-10 * scale(B)


@in_one_case(N=SIZES)
def test_the_stored_half_is_the_upper_half_plane(N):
    for name, re in (("legs", -0.5), ("legt", 0.0), ("lagt", 0.0)):
        Lambda, *_ = dplr(name, N)
        assert (Lambda.imag > 0).all()
        assert (Lambda.real <= 0).all()
        assert (Lambda.real - re).abs().max() < 1e-10 * Lambda.abs().max()


@given(st.integers(1, 40), st.floats(-0.9, 5), st.floats(0, 5))
def test_generalised_laguerre_adds_a_real_constant_to_lambda(half, alpha, beta):
    Lambda, P, B, V = dplr("lagt", 2 * half, alpha=alpha, beta=beta)
    plain, P_plain, _, _ = dplr("lagt", 2 * half)
    torch.testing.assert_close(Lambda, plain - beta / 2, rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(P.abs(), P_plain.abs(), rtol=1e-9, atol=1e-11)  # an eigenvector's phase is free
    binomials = torch.tensor(special.binom([n + alpha for n in range(2 * half)], range(2 * half)))
    assert error((full(V) @ full(B)).real, binomials) < 1e-11


def test_a_result_that_is_changed_in_place_does_not_change_the_next_one():
    first = dplr("legs", 8)
    kept = [t.clone() for t in first]
    for t in first:
        t.zero_()
    assert all(torch.equal(a, b) for a, b in zip(dplr("legs", 8), kept, strict=True))


# Systems given by their modes


def test_fout_remembers_a_window_of_length_1_in_cosines_and_sines():
    """Inside the window the weights are the functions on average, outside nearly 0 (the edge is an approximation)."""
    A, B = hippo("fout", 64)
    age, step, w = torch.arange(0, 2, 1 / 256, dtype=torch.float64), torch.matrix_exp(A / 256), [B]
    for _ in age[1:]:
        w.append(step @ w[-1])
    w, inside = torch.stack(w)[:, :6], age < 1
    cycles, sine = torch.tensor([0.5, 0.5, 1.5, 1.5, 2.5, 2.5]), torch.tensor([0, 1, 0, 1, 0, 1])
    basis = math.sqrt(2) * torch.cos(2 * torch.pi * cycles * age.unsqueeze(-1) - torch.pi / 2 * sine)
    gram = w[inside].mT @ basis[inside] / 256
    torch.testing.assert_close(gram, torch.eye(6, dtype=torch.float64), rtol=0, atol=0.05)
    assert w[~inside].square().mean() < 0.05 * w[inside].square().mean()


def test_clipped_legs_is_legs_but_for_the_imaginary_parts_of_b():
    """As version 4 of the authors' code starts: at N = 64 it is 11 of 32 that are clipped."""
    for clipped, whole in zip(dplr("legs-clipped", 64)[:2], dplr("legs", 64)[:2], strict=True):
        torch.testing.assert_close(clipped, whole, rtol=0, atol=0)
    B, clipped = dplr("legs", 64)[2], dplr("legs-clipped", 64)[2]
    changed = clipped != B
    assert changed.sum() == 11
    assert (clipped.real == B.real).all()
    assert (clipped.imag[changed] == 2 * B.imag[changed].sign()).all()
    assert clipped.imag.abs().max() == 2


def test_the_diagonal_inits_are_their_formulas():
    lin, inv = dplr("s4d-lin", 8)[0], dplr("s4d-inv", 8)[0]
    assert torch.equal(lin, torch.complex(torch.full((4,), -0.5).double(), torch.pi * torch.arange(4).double()))
    expected = [8 / math.pi * (8 / (2 * n + 1) - 1) for n in range(4)]
    torch.testing.assert_close(inv.imag, torch.tensor(expected, dtype=torch.float64))
    legs = dplr("legs", 8)
    torch.testing.assert_close(dplr("s4d-legs", 8)[0], legs[0], rtol=0, atol=1e-12)
    assert all(dplr(name, 8)[1].shape == (0, 4) for name in ("s4d-lin", "s4d-inv", "s4d-legs"))


def test_with_many_states_the_diagonal_of_legs_follows_slow_inputs_as_legs_does():
    """The response (s - A)^-1 B of the first states to e^(st). (Fast ripples stay on e^(tA) B itself.)"""
    errors = []
    for N in (16, 64, 256):
        responses = []
        for name in ("legs", "s4d-legs"):
            A, B = (t.to(torch.complex128) for t in hippo(name, N))
            responses.append(torch.stack([torch.linalg.solve(s * torch.eye(N) - A, B)[:4] for s in (0.2, 2j, 1 + 5j)]))
        errors.append(error(responses[1], responses[0]))
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_random_systems_are_drawn_anew_and_come_back_with_the_seed():
    first, second = dplr("random-nplr", 64), dplr("random-nplr", 64)
    assert (first[0].real == -0.5).all()
    assert (first[0].imag > 0).all()
    assert first[0].imag.log().std() > 0.5
    assert not torch.equal(first[0], second[0])
    torch.manual_seed(0)
    assert all(torch.equal(a, b) for a, b in zip(dplr("random-nplr", 64), first, strict=True))


# Why not diagonalise A itself: lemma hippo-diagonalization


def lemma_matrix(N):
    """The matrix of the lemma's proof, in Python's integers."""
    return [[(-1) ** (n - k) * (2 * k + 1) if n > k else n + 1 if n == k else 0 for k in range(N)] for n in range(N)]


def binomial_eigenvectors(N):
    return [[math.comb(i + j, i - j) if i >= j else 0 for j in range(N)] for i in range(N)]


def test_legs_is_the_lemmas_matrix_up_to_sign_and_diagonal_conjugation():
    N = 24
    A, B = hippo("legs", N)
    S = B * (-1.0) ** torch.arange(N)
    torch.testing.assert_close(-A * S / S.unsqueeze(1), torch.tensor(lemma_matrix(N), dtype=torch.float64))


@pytest.mark.parametrize("N", [1, 2, 3, 8, 40])
def test_binomials_are_the_eigenvectors_of_legs_exactly(N):
    A, V = lemma_matrix(N), binomial_eigenvectors(N)
    for j in range(N):
        for k in range(N):
            assert sum(A[k][i] * V[i][j] for i in range(N)) == (j + 1) * V[k][j]


@pytest.mark.parametrize("i", [1, 5, 20, 80])
def test_the_eigenvectors_grow_as_2_to_the_4n_over_3(i):
    N = 3 * i + 1
    largest = max(max(row) for row in binomial_eigenvectors(N))
    entry = binomial_eigenvectors(N)[3 * i][i]
    assert entry == math.comb(4 * i, 2 * i)
    assert 2 ** (4 * i) <= (4 * i + 1) * entry <= (4 * i + 1) * largest


def test_naive_diagonalisation_fails_where_dplr_does_not():
    N, L = 64, 256
    A, B = hippo("legs", N)
    system = hippo_system("legs", N, 0.01)
    _, _, _, V = dplr("legs", N)
    C = (full(system.C[0]) @ full(V).mH).real  # the same output map, in the basis of A
    K = power_kernel(
        *(t.real for t in dense_bilinear(A.to(torch.complex128), B.to(torch.complex128), system.dt[0])), C, L
    )
    assert error(dense_kernel(system, L)[0], K) < 1e-11

    w, U = torch.linalg.eig(A)
    w_bar = (1 + 0.005 * w) / (1 - 0.005 * w)
    B_bar = 0.01 / (1 - 0.005 * w) * torch.linalg.solve(U, B.to(U.dtype))
    naive = (w_bar ** torch.arange(L).unsqueeze(-1) @ ((C.to(U.dtype) @ U) * B_bar)).real
    assert not ((naive - K).abs().max() / K.abs().max()).item() < 1e-2


# Errors


@pytest.mark.parametrize("function", [hippo, nplr, dplr])
def test_an_unknown_init_is_refused_with_the_known_ones(function):
    known = "fout, lagt, legs, legs-clipped, legt, random-nplr, s4d-inv, s4d-legs, s4d-lin"
    with pytest.raises(ValueError, match=f"init: expected one of {known}, got 'legendre'"):
        function("legendre", 4)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("function", [hippo, nplr, dplr])
@in_one_case(N=[0, 1, 7, -2, 4.0, True, "8", None])
def test_a_state_size_that_is_not_even_is_refused(function, N):
    function("legs", 4)  # a result that is remembered for 4 must not answer for 4.0
    with pytest.raises(ValueError, match=r"N: expected an even number of states.*got " + repr(N)):
        function("legs", N)


def test_parameters_of_another_init_are_refused():
    with pytest.raises(ValueError, match="beta: expected none, as the initialisation 'legt' has no such parameter"):
        dplr("legt", 8, beta=1.0)


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", -1.0), ("beta", -0.1), *((name, x) for name in ("alpha", "beta") for x in (math.nan, math.inf))],
)
def test_laguerre_parameters_out_of_range_are_refused(name, value):
    with pytest.raises(ValueError, match=f"{name}: expected .*got {value}"):
        dplr("lagt", 8, **{name: value})


def test_a_registered_init_that_is_not_normal_plus_low_rank_is_refused(monkeypatch):
    legs = INITS["legs"]
    monkeypatch.setitem(INITS, "wrong", lambda N: legs(N)._replace(P=torch.ones(1, N, dtype=torch.float64)))
    with pytest.raises(ValueError, match=r"'wrong'.*not normal"):
        dplr("wrong", 8)


def test_a_new_init_joins_by_name(monkeypatch):
    monkeypatch.setitem(INITS, "mine", lambda N: nplr("lagt", N, beta=2.0))
    assert all(torch.equal(a, b) for a, b in zip(dplr("mine", 6), dplr("lagt", 6, beta=2.0), strict=True))
