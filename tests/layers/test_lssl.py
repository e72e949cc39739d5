import copy
import math

import pytest
import torch
from dense import LOW_RANK_INITS, direct_convolution, error, log_uniform
from pairwise import in_one_case, in_pairs

from longwave import S4
from longwave.layers import LSSL
from longwave.layers.lssl import krylov
from longwave.ssm import INITS, bilinear, dplr, hippo, power_kernel

inits = pytest.mark.parametrize("init", LOW_RANK_INITS)


def make(d_model=4, d_state=8, dtype=torch.float64, **options):
    """A layer whose systems are no longer those of the initialisation."""
    torch.set_default_dtype(dtype)
    layer = LSSL(d_model, d_state, **{"dt_min": 0.01, "dt_max": 0.3} | options)
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for parameter in (layer.A, layer.B):
            parameter.add_(0.05 * torch.randn_like(parameter))
    return layer


def power_kernels(layer, L, rate=1.0):
    """(H, L), or (2, H, L): each feature by the definition."""
    kernels = []
    for C in layer.C.reshape(-1, layer.d_model, layer.d_state):
        for h in range(layer.d_model):
            system, discrete_system = (h * count // layer.d_model for count in (layer.n_ssm, len(layer.log_dt)))
            A = layer.A[system] if layer.structure == "dense" else torch.diag(layer.A[system])
            discrete = bilinear(A, layer.B[system], layer.log_dt[discrete_system].exp() * rate)
            kernels.append(power_kernel(*discrete, C[h], L))
    return torch.stack(kernels).reshape(*layer.C.shape[:-1], L)


@in_pairs(by="init", init=LOW_RANK_INITS, L=[1, 2, 3, 37, 64], n_ssm=[None, 2, 1], bidirectional=[False, True])
def test_the_kernel_is_that_of_the_definition(init, L, n_ssm, bidirectional):
    layer = make(init=init, n_ssm=n_ssm, bidirectional=bidirectional)
    for rate in (1.0, 0.37):
        assert error(layer.kernel(L, rate), power_kernels(layer, L, rate)) < 1e-12


@in_pairs(
    by="L",
    **{
        "L": [1, 2, 37, 64],
        "options": [{"structure": "diagonal"}, {}],
        "n_ssm, dt_per_feature": [(None, False), (2, False), (2, True), (1, True)],
    },
)
def test_random_systems_have_the_kernel_of_the_definition_values_and_gradients(L, options, n_ssm, dt_per_feature):
    layer = make(init="gaussian", sigma=0.5, n_ssm=n_ssm, dt_per_feature=dt_per_feature, **options)
    for rate in (1.0, 0.37):
        assert error(layer.kernel(L, rate), power_kernels(layer, L, rate)) < 1e-12
    weight = torch.randn(layer.d_model, L, dtype=torch.float64)
    parameters = [layer.A, layer.B, layer.C, layer.log_dt]
    found = torch.autograd.grad((layer.kernel(L) * weight).sum(), parameters)
    expected = torch.autograd.grad((power_kernels(layer, L) * weight).sum(), parameters)
    for a, b in zip(found, expected, strict=True):
        assert error(a, b) < 1e-11


@pytest.mark.parametrize("options", [{"structure": "diagonal"}, {}], ids=["diagonal", "dense"])
def test_steps_and_chunks_of_random_systems_equal_the_convolution(options):
    layer, u = make(init="gaussian", n_ssm=1, dt_per_feature=True, **options), torch.randn(2, 71, 4).double()
    y, last = layer(u)
    first, state = layer(u[:, :30])
    second, state = layer(u[:, 30:], state)
    assert error(torch.cat((first, second), dim=1), y) < 1e-12
    assert error(state, last) < 1e-12
    state, steps = layer.initial_state(2), []
    for u_t in u.unbind(1):
        y_t, state = layer.step(u_t, state)
        steps.append(y_t)
    assert error(torch.stack(steps, dim=1), y) < 1e-12
    assert error(state, last) < 1e-12


def test_random_systems_are_drawn_with_the_size_that_is_asked_for():
    dense = LSSL(2, 64, init="gaussian", sigma=0.5)
    assert float(torch.linalg.eigvals(dense.A[0].detach()).abs().max()) == pytest.approx(0.5, rel=0.3)  # a disc
    assert not torch.equal(dense.A[0], dense.A[1])
    diagonal = LSSL(200, 64, init="gaussian", structure="diagonal", sigma=0.25)
    assert float(diagonal.A.detach().std()) == pytest.approx(0.25, rel=0.05)
    assert float(diagonal.B.detach().std()) == pytest.approx(1, rel=0.05)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"structure": "diagonal"}, "init: expected gaussian for a diagonal A"),
        ({"structure": "sparse"}, "structure: expected one of dense, diagonal, got 'sparse'"),
        ({"init": "gaussian", "sigma": 0.0}, "sigma: expected a number above 0, got 0"),
        ({"trainable": ("C",)}, "trainable: expected True, False, or names out of A, B, dt"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_systems_that_there_are_not_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LSSL(4, 8, **options)


def test_the_state_matrix_can_be_frozen_alone():
    layer = LSSL(4, 8, trainable=("B", "dt"))
    assert {name for name, p in layer.named_parameters() if not p.requires_grad} == {"A"}


@inits
@in_one_case(N=[4, 16, 64])
def test_the_kernel_is_s4s_for_the_same_system(init, N):
    """C in the basis of eigenvectors is C V; undamped systems lose digits in S4 where a node is close to a pole."""
    dt = log_uniform(3)
    lssl, s4 = LSSL(3, N, init=init).double(), S4(3, N, init=init).double()
    Lambda, P, B, V = dplr(init, N)
    with torch.no_grad():
        lssl.A.copy_(hippo(init, N)[0])
        lssl.B.copy_(hippo(init, N)[1])
        s4.Lambda_re.copy_(-Lambda.real)
        s4.Lambda_im.copy_(Lambda.imag)
        s4.P.copy_(torch.view_as_real(P).unsqueeze(1))
        s4.B.copy_(torch.view_as_real(B))
        s4.C.copy_(torch.view_as_real(lssl.C.to(V.dtype) @ V))
        lssl.log_dt.copy_(dt.log())
        s4.log_dt.copy_(dt.log())
        s4.D.copy_(lssl.D)
    assert error(lssl.kernel(100), s4.kernel(100)) < (1e-11 if init == "legs" else 1e-7)
    u = torch.randn(2, 100, 3, dtype=torch.float64)
    assert error(lssl(u)[0], s4(u)[0]) < (1e-11 if init == "legs" else 1e-7)


@pytest.mark.parametrize("L", [1, 2, 5, 8, 9])
def test_doubling_gives_the_powers_one_by_one(L):
    E, B = -torch.rand(2, 3, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    x, columns = B.unsqueeze(-1), []
    for _ in range(L):
        columns.append(x)
        x = x + E @ x
    assert error(krylov(E, B, L), torch.cat(columns, dim=-1)) < 1e-13


def test_the_output_is_the_convolution_with_the_kernel_plus_d_u():
    u = torch.randn(2, 20, 4, dtype=torch.float64)
    for n_ssm in (None, 2):
        layer = make(n_ssm=n_ssm)
        assert error(layer(u)[0], direct_convolution(u, layer.kernel(20)) + layer.D * u) < 1e-12
        layer = make(n_ssm=n_ssm, bidirectional=True)
        assert error(layer(u)[0], direct_convolution(u, *layer.kernel(20)) + layer.D * u) < 1e-12


def test_shared_systems_are_copies():
    shared, own = make(6, n_ssm=2), make(6)
    repeated = {
        name: value.repeat_interleave(3, dim=0) if name in ("A", "B", "log_dt") else value
        for name, value in shared.state_dict().items()
    }
    own.load_state_dict(repeated)
    u, lengths = torch.randn(2, 70, 6, dtype=torch.float64), torch.tensor([70, 33])
    (y, state), (y_own, state_own) = shared(u), own(u)
    assert error(y, y_own) < 1e-13
    assert error(state, state_own) < 1e-13
    for a, b in zip(shared(u, state, lengths=lengths), own(u, state, lengths=lengths), strict=True):
        assert error(a, b) < 1e-13
    for a, b in zip(shared.step(u[:, 0], state), own.step(u[:, 0], state), strict=True):
        assert error(a, b) < 1e-13
    assert shared.A.shape == (2, 8, 8)


@pytest.mark.parametrize("rate", [0.5, 3.0])
def test_a_rate_is_a_factor_of_dt(rate):
    layer, u = make(n_ssm=2), torch.randn(2, 20, 4, dtype=torch.float64)
    slowed = copy.deepcopy(layer)
    with torch.no_grad():
        slowed.log_dt += math.log(rate)
        state = slowed(u)[1]
        for _ in range(2):
            for a, b in zip(layer.step(u[:, 0], state, rate=rate), slowed.step(u[:, 0], state), strict=True):
                assert error(a, b) < 1e-12
            layer.step(u[:, 0], state)  # another rate in between: what a step keeps is that of its own rate
        for a, b in zip(layer(u, state, rate=rate), slowed(u, state), strict=True):
            assert error(a, b) < 1e-12


@pytest.mark.parametrize("L", [784, 4096])
def test_float32_keeps_four_digits(L):
    """The worst of 20 seeds was 6.6e-6."""
    layer = LSSL(8, 64)
    assert error(layer.kernel(L).double(), copy.deepcopy(layer).double().kernel(L)) < 3e-5


def test_frozen_parameters_get_no_gradient_and_the_rest_does():
    layer = make(trainable=False)
    layer(torch.randn(2, 9, 4, dtype=torch.float64))[0].sum().backward()
    assert {name for name, p in layer.named_parameters() if p.grad is not None} == {"C", "D"}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"d_state": 0}, "d_state: expected a whole number, at least 1, got 0"),
        ({"d_state": 7}, "d_state: expected an even number \\(modes come in conjugate pairs\\), got 7"),
        ({"n_ssm": 3}, "n_ssm: expected a divisor of d_model = 4, got 3"),
        ({"dt_min": 0.2, "dt_max": 0.1}, "dt_min, dt_max: expected 0 < dt_min <= dt_max, both finite, got 0.2 and 0.1"),
        ({"init": "fourier"}, f"init: expected one of {', '.join(sorted([*INITS, 'gaussian']))}, got 'fourier'"),
    ],
)
def test_settings_that_make_no_layer_are_refused(options, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        LSSL(4, **options)
    with pytest.raises(ValueError, match=r"^L: expected a whole number, at least 1, got 0$"):
        LSSL(4).kernel(0)


def test_the_printed_layer_shows_its_settings():
    assert "d_model=6, d_state=16, init='legt', bidirectional=True, n_ssm=2" in repr(
        LSSL(6, 16, init="legt", bidirectional=True, n_ssm=2)
    )
