"""What the S4D layer has of its own; the laws of every mixer are in test_laws.py."""

import pytest
import torch
from dense import LOW_RANK_INITS, System, dense_kernel, error, log_uniform, worst_error
from pairwise import CPU_BACKENDS, in_pairs

from longwave import DPLR, S4, S4D, S4DConfig, SequenceModel
from longwave.ssm import diagonal_discrete, diagonal_kernel, dplr

DIAGONAL_INITS = ["s4d-legs", "s4d-lin", "s4d-inv"]


def make(seed=0, **settings):
    torch.manual_seed(seed)
    return S4D(**{"d_model": 4, "d_state": 8, "dt_min": 0.01, "dt_max": 0.3, **settings}).double()


def signal(batch=2, L=70, H=4, seed=1):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("init", DIAGONAL_INITS)
@pytest.mark.parametrize("n_ssm", [None, 2])
def test_a_new_layer_holds_the_initialisation(init, n_ssm):
    layer = make(init=init, n_ssm=n_ssm)
    system, (Lambda, _, B, _) = layer.ssm(), dplr(init, 8)
    assert isinstance(system, DPLR)
    assert error(system.Lambda, Lambda.expand(4, -1)) < 1e-6  # parameters were made in float32
    assert error(system.B, B.expand(4, -1)) < 1e-6
    assert system.P.shape == (0, 4, 4)
    assert set(layer.state_dict()) == {"log_dt", "Lambda_re", "Lambda_im", "B", "C", "D"}


@in_pairs(backend=CPU_BACKENDS, rule=["zoh", "bilinear"], bidirectional=[False, True])
def test_the_kernel_is_that_of_the_system(backend, rule, bidirectional):
    layer = make(rule=rule, bidirectional=bidirectional)
    Lambda, P, B, C, _, dt = layer.ssm()
    for L, rate in ((1, 1.0), (33, 0.37)):
        K = layer.kernel(L, rate)
        assert error(K, diagonal_kernel(Lambda, B, C, dt * rate, L, rule)) < 1e-13
        if rule == "bilinear" and not bidirectional:
            assert error(K, dense_kernel(System(Lambda, P, B, C, dt * rate), L)) < 1e-12


def test_by_the_bilinear_rule_it_is_s4_without_a_low_rank_part():
    s4d, s4 = make(rule="bilinear"), S4(4, 8).double()
    with torch.no_grad():
        for name, parameter in s4d.named_parameters():
            s4.get_parameter(name).copy_(parameter)
        s4.P.zero_()
    u = signal()
    (y, state), (y_s4, state_s4) = s4d(u), s4(u)
    assert error(y, y_s4) < 1e-12
    assert error(state, state_s4) < 1e-12


@in_pairs(backend=CPU_BACKENDS, init=DIAGONAL_INITS, L=[101, 1024])
def test_the_kernel_in_float32_is_exact_to_2e_6(backend, init, L):
    """Against float64 of the same numbers; by the bilinear rule the worst is 5.8e-7 (docs/results/accuracy.md)."""
    Lambda, _, B, _ = dplr(init, 64)
    dt = log_uniform(20, seed=L).float()
    Lambda, B = (t.to(torch.complex64).repeat(20, 1) for t in (Lambda, B))
    layer = make(d_model=20, d_state=64, init=init).float()
    with torch.no_grad():
        layer.log_dt.copy_(dt.log())
        Lambda, _, B, C, _, dt = layer.ssm()
        truth = diagonal_kernel(*(t.to(torch.complex128) for t in (Lambda, B, C)), dt.double(), L)
        assert worst_error(layer.kernel(L), truth) < 2e-6


def test_a_mode_that_is_gone_within_a_step_has_a_kernel_and_gradients(backend):
    """A_bar = 0 under the bilinear rule, powers below the range of float32 under the hold."""
    for rule, Lambda_re in (("bilinear", 2.0), ("zoh", 500.0), ("zoh", 0.0)):
        layer = make(rule=rule).float()
        with torch.no_grad():
            layer.log_dt.zero_()
            layer.Lambda_re.fill_(Lambda_re)
            layer.Lambda_im.zero_()
        K = layer.kernel(200)
        K.sum().backward()
        assert torch.isfinite(K).all()
        assert all(torch.isfinite(p.grad).all() for p in layer.parameters() if p.grad is not None)
        if Lambda_re:
            assert (K[:, 1:] == 0).all()


def test_a_layer_of_many_steps_forgets_to_zero_not_to_denormal_numbers(backend):
    K = make(init="s4d-lin", dt_min=0.5, dt_max=0.5).float().kernel(5000)
    tail = K[:, 2000:].abs()
    assert ((tail == 0) | (tail >= torch.finfo(torch.float32).tiny)).all()


def test_the_constants_of_chunks_can_be_kept():
    layer, u = make(), signal(2, 150)
    kept = layer.chunk_constants(64, rate=1.3)
    state, outputs = None, []
    for chunk in u.split(64, dim=1):
        y, state = layer(chunk, state, rate=1.3, constants=kept)
        outputs.append(y)
    y, after = layer(u, rate=1.3)
    assert error(torch.cat(outputs, dim=1), y) < 1e-12
    assert error(state, after) < 1e-12


def test_the_compiled_step_serves_it(compiled, monkeypatch):
    monkeypatch.setenv("LONGWAVE_KERNEL", "native")
    layer = make().requires_grad_(False)
    y, state = layer.step(signal()[:, 0], layer.initial_state(2))
    assert layer._derived["step", 1.0][1].steps is not None
    discrete = diagonal_discrete(layer.ssm().Lambda, layer.ssm().B, layer.ssm().dt)
    assert error(state, discrete.B_bar * signal()[:, 0].unsqueeze(-1)) < 1e-14
    assert error(y, layer(signal()[:, :1])[0][:, 0]) < 1e-13


@pytest.mark.parametrize("layer", [S4, S4D])
@pytest.mark.parametrize("names", [(), ("B", "dt"), ("A",), True, False])
def test_the_parts_that_are_named_are_trained(layer, names):
    parts = {"A": {"Lambda_re", "Lambda_im", "P"}, "B": {"B"}, "dt": {"log_dt"}}
    chosen = [part for part in parts if names is True or (names and part in names)]
    trained = {"C", "D"}.union(*(parts[part] for part in chosen))
    made = layer(4, 6, trainable=names)
    assert {name for name, p in made.named_parameters() if p.requires_grad} == trained & set(made.state_dict())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("layer", [S4, S4D])
@pytest.mark.parametrize("names", ["A", ("A", "C"), ("Lambda",)])
def test_parts_that_there_are_not_are_refused(layer, names):
    with pytest.raises(ValueError, match=r"^trainable: expected True, False, or names out of A, B, dt .* got "):
        layer(4, 6, trainable=names)


def test_settings_with_names_come_back_from_json():
    config = S4DConfig(trainable=("B", "dt"), rule="bilinear", init="s4d-inv")
    assert S4DConfig.from_dict(config.to_dict()) == config
    with pytest.raises(ValueError, match="trainable: expected true or false or a list"):
        S4DConfig.from_dict({"trainable": ["C"]})


def test_legs_is_the_diagonal_of_legs():
    assert make(init="legs").init == "s4d-legs"
    pairs = zip(make(init="legs").parameters(), make(init="s4d-legs").parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("init", [*(name for name in LOW_RANK_INITS if name != "legs"), "random-nplr"])
def test_an_init_with_a_low_rank_part_is_refused(init):
    with pytest.raises(ValueError, match=rf"^init: expected one that is diagonal \(s4d-legs.*got '{init}'.*use S4"):
        make(init=init)


@pytest.mark.parametrize("init", DIAGONAL_INITS)
def test_s4_refuses_an_init_that_is_diagonal(init):
    with pytest.raises(ValueError, match=rf"^init: expected one with a low-rank part, got '{init}'.*use S4D"):
        S4(4, 8, init=init)


@pytest.mark.usefixtures("unchecked")
def test_another_rule_is_refused():
    with pytest.raises(ValueError, match="rule: expected one of zoh, bilinear, got 'euler'"):
        make(rule="euler")


def test_a_model_of_s4d_streams_and_says_what_it_is():
    torch.manual_seed(0)
    model = SequenceModel(d_model=8, n_layers=2, input_size=2, output_size=3, mixer="s4d", decoder="sequence").eval()
    x = torch.randn(1, 20, 2)
    with torch.no_grad():
        y, _ = model(x)
        half, state = model(x[:, :11], need_state=True)
        rest, _ = model(x[:, 11:], state=state)
    assert error(torch.cat((half, rest), 1), y) < 1e-5
    assert "rule='zoh'" in repr(model)
