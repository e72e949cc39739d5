"""S4D on rows at irregular times; the maths is in tests/ssm/test_irregular.py."""

import pytest
import torch
from dense import error
from pairwise import in_pairs

from longwave import S4, S4D, S4DConfig, SequenceModel
from longwave.layers import MIXERS, make_mixer, s4d
from longwave.models.pair import PairConfig

H, N = 4, 6


def make(**settings):
    torch.manual_seed(0)
    return S4D(H, N, **{"dt_min": 0.01, "dt_max": 0.3, **settings}).double()


def rows(L, batch=2, seed=1):
    random = torch.Generator().manual_seed(seed)
    u = torch.randn(batch, L, H, generator=random, dtype=torch.float64)
    return u, 0.1 + 5 * torch.rand(batch, L, generator=random, dtype=torch.float64)


@in_pairs(by="init", L=[1, 2, 65, 130], init=["s4d-legs", "s4d-lin", "s4d-inv"], n_ssm=[None, 2])
def test_gaps_of_one_are_even_steps(L, init, n_ssm):
    layer, (u, gaps) = make(init=init, n_ssm=n_ssm), rows(L)
    ones, parameters = torch.ones_like(gaps), list(layer.parameters())
    before = torch.randn(2, H, N // 2, dtype=torch.complex128)
    for (y, state), (y_true, state_true) in [
        (layer(u, gaps=ones), layer(u)),
        (layer(u, before, gaps=ones), layer(u, before)),
        (layer(u, gaps=2.5 * ones), layer(u, rate=2.5)),
        (layer(u, gaps=0.5 * ones, rate=5.0), layer(u, rate=2.5)),
    ]:
        assert error(y, y_true) < 1e-11
        assert error(state, state_true) < 1e-11
        found, true = (torch.autograd.grad(one.square().sum(), parameters) for one in (y, y_true))
        assert all(error(g, g_true) < 1e-9 for g, g_true in zip(found, true, strict=True))


@in_pairs(unit=[0.25, 1.0, 1 / 3], L=[33, 130], dtype=[torch.float64, torch.float32])
def test_a_convolution_over_the_even_steps_within_gaps_is_the_recurrence_over_rows(unit, L, dtype, monkeypatch):
    layer, (u, _) = make().to(dtype), rows(L)
    u = u.to(dtype)
    gaps = unit * torch.randint(1, 6, (2, L), generator=torch.Generator().manual_seed(0)).to(dtype)
    lengths, before = torch.tensor([L, L - 20]), torch.randn(2, H, N // 2, dtype=torch.complex128)
    parameters = list(layer.parameters())

    def run():
        y, state = layer(u, before, gaps=gaps, lengths=lengths, rate=1.5)
        return y, state, *torch.autograd.grad(y.square().sum() + state.abs().sum(), parameters)

    assert s4d.even_steps(gaps)[0] == pytest.approx(unit)
    found = run()
    monkeypatch.setattr(s4d, "even_steps", lambda gaps: None)
    for value, truth in zip(found, run(), strict=True):
        assert error(value, truth) < (1e-10 if dtype == torch.float64 else 2e-5)


def test_a_sequence_with_a_long_gap_goes_row_by_row_among_others(monkeypatch):
    layer, (u, _) = make(), rows(40, batch=5)
    gaps = torch.randint(1, 4, (5, 40), generator=torch.Generator().manual_seed(0)).double()
    gaps[1, 7] = gaps[3, 30] = 1e6
    before, parameters = torch.randn(5, H, N // 2, dtype=torch.complex128), list(layer.parameters())
    in_turn, sizes = layer._mix_in_turn, []

    def counted(u, *given, **more):
        sizes.append(len(u))
        return in_turn(u, *given, **more)

    monkeypatch.setattr(layer, "_mix_in_turn", counted)
    (y, state), without = layer(u, before, gaps=gaps), layer(u, gaps=gaps, need_state=False)[1]
    found = y, state, *torch.autograd.grad(y.square().sum() + state.abs().sum(), parameters)
    assert without is None
    monkeypatch.setattr(s4d, "even_steps", lambda gaps: None)
    y, state = layer(u, before, gaps=gaps)
    true = y, state, *torch.autograd.grad(y.square().sum() + state.abs().sum(), parameters)
    assert sizes == [2, 2, 5]
    for value, truth in zip(found, true, strict=True):
        assert error(value, truth) < 1e-10


@pytest.mark.parametrize("cuts", [[64, 66], [1, 129], [50, 33, 47]])
def test_chunks_equal_the_whole(cuts):
    layer, (u, gaps) = make(), rows(130)
    whole, after = layer(u, gaps=gaps)
    state, outputs = None, []
    for u_part, gaps_part in zip(u.split(cuts, dim=1), gaps.split(cuts, dim=1), strict=True):
        y, state = layer(u_part, state, gaps=gaps_part)
        outputs.append(y)
    assert error(torch.cat(outputs, dim=1), whole) < 1e-13
    assert error(state, after) < 1e-13


def test_steps_equal_the_forward_pass():
    layer, (u, gaps) = make(), rows(70)
    y, after = layer(u, gaps=gaps)
    state = None
    for k in range(70):
        y_k, state = layer.step(u[:, k], state, gap=gaps[:, k])
        assert error(y_k, y[:, k]) < 1e-12
    assert error(state, after) < 1e-12


def test_padding_has_no_effect():
    layer, (u, gaps) = make(), rows(90)
    lengths = torch.tensor([90, 37])
    u[1, 37:], gaps[1, 37:] = torch.nan, torch.nan
    u.requires_grad_()
    y, after = layer(u, lengths=lengths, gaps=gaps)
    alone, after_alone = layer(u[1:, :37], gaps=gaps[1:, :37])
    assert error(y[1:, :37], alone) < 1e-13
    assert (y[1, 37:] == 0).all()
    assert error(after[1:], after_alone) < 1e-13
    y.sum().backward()
    assert torch.isfinite(u.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in layer.parameters())


def test_a_float32_layer_is_exact_to_1e_6():
    """Against float64 of the same parameters: only inputs and outputs are rounded to float32."""
    layer, (u, gaps) = make().float(), rows(300)
    gaps[:, ::50] = 400.0
    u, gaps = u.float(), gaps.float()
    y, state = layer(u, gaps=gaps)
    assert (y.dtype, state.dtype) == (torch.float32, torch.complex64)
    y_true, state_true = layer.double()(u.double(), gaps=gaps.double())
    assert error(y, y_true) < 1e-6
    assert error(state, state_true) < 1e-6


def test_a_model_passes_gaps_on():
    torch.manual_seed(0)
    model = SequenceModel(d_model=8, n_layers=2, input_size=H, output_size=3, mixer="s4d", decoder="sequence")
    model, (u, gaps) = model.double().eval(), rows(70)
    y, _ = model(u, gaps=gaps)
    assert error(model(u, gaps=torch.ones_like(gaps))[0], model(u)[0]) < 1e-11
    assert error(y, model(u)[0]) > 1e-3
    state = None
    for k in range(70):
        y_k, state = model.step(u[:, k], state, gap=gaps[:, k])
        assert error(y_k, y[:, k]) < 1e-11
    recomputed = SequenceModel(model.config, gradient_checkpointing=True).double()
    recomputed.load_state_dict(model.state_dict())
    found, true = (
        torch.autograd.grad(m(u, gaps=gaps)[0].sum(), list(m.parameters())) for m in (recomputed, model.train())
    )
    assert all(error(g, g_true) < 1e-12 for g, g_true in zip(found, true, strict=True))


@pytest.mark.parametrize("kind", sorted(MIXERS))
def test_every_other_mixer_refuses_gaps_and_names_s4d(kind):
    config = MIXERS[kind]()
    if config.refuses_gaps is None:
        return
    with pytest.raises(ValueError, match=r"^gaps: .*s4d"):
        make_mixer(kind, 8)(torch.randn(1, 9, 8), gaps=torch.ones(1, 9))


def test_s4_says_why_it_refuses_gaps():
    with pytest.raises(ValueError, match=r"bilinear rule, which does not decay over long gaps.*use S4D"):
        S4(H, N).step(torch.randn(1, H), gap=torch.ones(1))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rule": "bilinear"}, r"^gaps: expected rule 'zoh', .* got 'bilinear'"),
        ({"bidirectional": True}, r"^gaps: expected a causal layer, got bidirectional=True"),
    ],
)
def test_settings_without_an_exact_hold_are_refused(settings, message):
    u, gaps = rows(5)
    with pytest.raises(ValueError, match=message):
        make(**settings)(u, gaps=gaps)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("gaps", "message"),
    [
        (torch.ones(2, 4), r"gaps: expected a floating-point tensor \(2, 5\), .* got .*2, 4"),
        (torch.ones(2, 5, dtype=torch.int64), r"gaps: expected a floating-point tensor .* got .*int64"),
        ([[1.0] * 5] * 2, r"gaps: expected a floating-point tensor"),
        (
            torch.tensor([[1.0] * 5, [1, 1, 0, 1, 1]]),
            r"gaps: expected finite numbers above 0, got 0 at step 2 of row 1",
        ),
        (torch.tensor([[1.0, torch.nan, 1, 1, 1]] * 2), r"above 0, got nan at step 1 of row 0"),
        (torch.tensor([[1.0, 1, 1, 1, torch.inf]] * 2), r"above 0, got inf at step 4 of row 0"),
    ],
)
def test_wrong_gaps_are_refused(gaps, message):
    with pytest.raises(ValueError, match=message):
        make()(rows(5)[0], gaps=gaps)


def test_gaps_are_refused_beside_what_needs_even_steps():
    layer, (u, gaps) = make(), rows(9, batch=1)
    with pytest.raises(ValueError, match="gaps: expected None beside cu_seqlens"):
        layer(u, gaps=gaps, cu_seqlens=torch.tensor([0, 4, 9]))
    with pytest.raises(ValueError, match="constants: expected None beside gaps"):
        layer(u, gaps=gaps, constants=layer.chunk_constants(9))


def test_pairs_have_gaps_of_their_own():
    model = PairConfig(d_model=8, n_layers=1, input_size=3, output_size=2, mixer=S4DConfig()).build().eval()
    x, gaps = torch.randn(2, 2, 9, 3), 0.5 + torch.rand(2, 2, 9)
    assert error(model(x, gaps=torch.ones_like(gaps))[0], model(x)[0]) < 1e-5
    y = model(x, gaps=gaps)[0]
    gaps[1, 1] *= 3  # those of the second sequence of the second pair
    changed = model(x, gaps=gaps)[0]
    assert error(changed[0], y[0]) < 1e-6
    assert error(changed[1], y[1]) > 1e-4
