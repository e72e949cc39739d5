import math

import pytest
import torch
from mixer_settings import sequence_config
from pairwise import in_one_case
from torch import nn

from longwave import S4, param_groups
from longwave.layers import LSSL
from longwave.models import SequenceModel
from longwave.train.lamb import Lamb

SSM = {"Lambda_re", "Lambda_im", "P", "B"}


class Model(nn.Module):
    """Two layers with something else around them."""

    def __init__(self, **options):
        super().__init__()
        self.encoder = nn.Linear(3, 4)
        self.layers = nn.ModuleList(
            [S4(4, 8, **options), nn.Sequential(S4(4, 8, length=16, **options), nn.LayerNorm(4))]
        )


def names(model, group):
    found = {id(p): name for name, p in model.named_parameters()}
    return {found[id(p)] for p in group["params"]}


def by_name(groups):
    return {group["name"]: group for group in groups}


def test_every_parameter_is_in_exactly_one_group():
    model = Model()
    grouped = [p for group in param_groups(model, lr=0.01) for p in group["params"]]
    assert len(grouped) == len({id(p) for p in grouped}) == len(list(model.parameters()))
    assert {id(p) for p in grouped} == {id(p) for p in model.parameters()}


def test_ssm_parameters_get_the_lower_rate_and_no_decay():
    model = Model()
    groups = by_name(param_groups(model, lr=0.01, weight_decay=0.05))
    assert (groups["ssm"]["lr"], groups["ssm"]["weight_decay"]) == (1e-3, 0.0)
    assert (groups["dt"]["lr"], groups["dt"]["weight_decay"]) == (1e-3, 0.0)
    assert (groups["rest"]["lr"], groups["rest"]["weight_decay"]) == (0.01, 0.05)
    assert {name.rsplit(".", 1)[1] for name in names(model, groups["ssm"])} == SSM
    assert len(names(model, groups["ssm"])) == 8
    assert {name.rsplit(".", 1)[1] for name in names(model, groups["dt"])} == {"log_dt"}


def test_c_and_d_train_with_the_rest():
    model = Model()
    rest = {name.rsplit(".", 1)[1] for name in names(model, by_name(param_groups(model, lr=0.01))["rest"])}
    assert rest == {"weight", "bias", "C", "C_tilde", "D"}


def test_rates_can_be_set_apart():
    groups = by_name(param_groups(Model(), lr=0.01, ssm_lr=2e-3, dt_lr=3e-4))
    assert (groups["ssm"]["lr"], groups["dt"]["lr"], groups["rest"]["lr"]) == (2e-3, 3e-4, 0.01)
    assert by_name(param_groups(Model(), lr=0.01, ssm_lr=2e-3))["dt"]["lr"] == 2e-3
    assert by_name(param_groups(Model(), lr=0.01, dt_lr=0.0))["dt"]["lr"] == 0.0


@pytest.mark.parametrize("transform", ["exp", "softplus"])
def test_c_may_have_a_rate_of_its_own_and_keeps_its_decay(transform):
    """The authors' later code: Lambda, P, B and dt at one rate without decay, C at that rate with decay."""
    model = Model(dt_transform=transform)
    groups = by_name(param_groups(model, lr=0.01, weight_decay=0.05, c_lr=1e-3))
    assert names(model, groups["C"]) == {"layers.0.C", "layers.1.0.C_tilde"}
    assert (groups["C"]["lr"], groups["C"]["weight_decay"]) == (1e-3, 0.05)
    assert {"layers.0.D", "layers.1.0.D"} <= names(model, groups["rest"])
    assert len(names(model, groups["dt"])) == 2
    grouped = [id(p) for group in groups.values() for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in model.parameters())
    frozen = by_name(param_groups(Model(dt_transform=transform, trainable=False), lr=0.01, c_lr=1e-3))
    assert set(frozen) == {"rest", "C"}


def test_an_lssl_is_grouped_as_an_s4_is():
    layer = LSSL(4, 8)
    groups = by_name(param_groups(layer, lr=0.01))
    found = {name: names(layer, group) for name, group in groups.items()}
    assert found == {"ssm": {"A", "B"}, "dt": {"log_dt"}, "rest": {"C", "D"}}
    assert names(layer, by_name(param_groups(layer, lr=0.01, c_lr=0.001))["C"]) == {"C"}


def test_norms_and_biases_of_blocks_may_go_without_decay():
    """Those of encoder and decoder are decayed all the same, as are C, D and all matrices."""
    for norm, second in (("layer", "bias"), ("batch", "bias"), ("scalar", "shift")):
        model = SequenceModel(sequence_config(d_model=4, n_layers=2, norm=norm, feed_forward=8))
        plain = by_name(param_groups(model, lr=0.01, weight_decay=0.05))
        groups = by_name(param_groups(model, lr=0.01, weight_decay=0.05, decay_norms=False))
        apart = names(model, groups["norms"])
        of_a_block = {f"{part}.bias" for part in ("linear", "feed_forward.0", "feed_forward.3")}
        of_a_block |= {f"{part}.{kind}" for part in ("norm", "feed_forward_norm") for kind in ("weight", second)}
        of_the_model = {"norm.weight", f"norm.{second}"}
        assert apart == {f"blocks.{k}.{name}" for k in range(2) for name in of_a_block} | of_the_model
        assert (groups["norms"]["lr"], groups["norms"]["weight_decay"]) == (0.01, 0.0)
        assert names(model, groups["rest"]) | apart == names(model, plain["rest"])
        assert not names(model, groups["rest"]) & apart
        assert "norms" not in plain


def test_frozen_parameters_are_left_out():
    model = Model(trainable=False)
    model.encoder.requires_grad_(False)
    (rest,) = param_groups(model, lr=0.01)
    assert {name.rsplit(".", 1)[1] for name in names(model, rest)} == {"C", "C_tilde", "D", "weight", "bias"}
    assert not any(name.startswith("encoder") for name in names(model, rest))


def test_a_layer_that_occurs_twice_is_grouped_once():
    layer = S4(4, 8)
    model = nn.ModuleList([layer, layer])
    grouped = [id(p) for group in param_groups(model, lr=0.01) for p in group["params"]]
    assert sorted(grouped) == sorted(id(p) for p in layer.parameters())


def test_a_layer_alone_and_a_model_without_one_are_taken():
    assert {group["name"] for group in param_groups(S4(4, 8), lr=0.01)} == {"rest", "ssm", "dt"}
    (group,) = param_groups(nn.Linear(2, 2), lr=0.01, weight_decay=0.1)
    assert (group["name"], group["weight_decay"], len(group["params"])) == ("rest", 0.1, 2)


def test_an_optimiser_takes_the_groups_and_moves_each_at_its_rate():
    torch.manual_seed(0)
    layer = S4(4, 8)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimiser = torch.optim.SGD(param_groups(layer, lr=0.1, ssm_lr=0.01, dt_lr=0.001))
    layer(torch.randn(2, 20, 4))[0].square().mean().backward()
    optimiser.step()
    rates = {"C": 0.1, "D": 0.1, "log_dt": 0.001} | dict.fromkeys(SSM, 0.01)
    for name, p in layer.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] - rates[name] * p.grad)
        assert p.grad.abs().max() > 0


def test_decay_shrinks_c_but_not_the_state_space():
    layer = S4(4, 8)
    before = {name: p.detach().clone() for name, p in layer.named_parameters()}
    optimiser = torch.optim.AdamW(param_groups(layer, lr=0.1, weight_decay=0.5))
    for p in layer.parameters():
        p.grad = torch.zeros_like(p)
    optimiser.step()
    for name, p in layer.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] * (0.95 if name in ("C", "D") else 1.0))


@pytest.mark.parametrize("name", ["lr", "weight_decay", "ssm_lr", "dt_lr", "c_lr"])
@in_one_case(value=[-0.1, math.nan, math.inf])
def test_a_rate_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^{name}: expected a finite number >= 0, got {value}$"):
        param_groups(S4(4, 8), **{"lr": 0.01} | {name: value})


# Optimisers that do not know


def step(optimiser):
    for group in optimiser.param_groups:
        for p in group["params"]:
            p.grad = torch.zeros_like(p)
    optimiser.step()


@pytest.mark.parametrize("layer", [S4(4, 8), LSSL(4, 8)], ids=["s4", "lssl"])
@pytest.mark.parametrize("settings", [{"lr": 0.01, "weight_decay": 0.0}, {"lr": 1e-4, "weight_decay": 0.1}])
def test_a_plain_optimiser_is_warned_of_once(layer, settings, recwarn):
    optimiser = torch.optim.AdamW(nn.Sequential(nn.Linear(4, 4), layer).parameters(), **settings)
    with pytest.warns(UserWarning, match=r"SSM parameters .* longwave\.param_groups\(model, lr=\.\.\.\)"):
        step(optimiser)
    recwarn.clear()
    step(optimiser)
    assert not recwarn.list


def test_an_optimiser_that_does_no_harm_is_not_warned_of(recwarn):
    model = Model()
    step(torch.optim.AdamW(param_groups(model, lr=0.01, weight_decay=0.1)))
    step(torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.0))
    step(torch.optim.SGD(nn.Linear(3, 4).parameters(), lr=1.0, weight_decay=0.1))
    assert not recwarn.list


def test_an_optimiser_without_a_learning_rate_is_let_be(recwarn):
    class Still(torch.optim.Optimizer):
        def step(self):
            pass

    step(Still(Model().parameters(), {}))
    assert not recwarn.list


# LAMB


def lamb_by_hand(weight, gradients, lr, decay):
    """The rule, tensor by tensor, in float64."""
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for gradient in gradients:
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        step = mean / (square.sqrt() + 1e-6) + decay * weight
        size, length = weight.norm(), step.norm()
        ratio = 1.0 if size == 0 or length == 0 else min(float(size), 10.0) / (float(length) + 1e-6)
        weight = weight - lr * ratio * step
    return weight


@pytest.mark.parametrize("scale", [0.0, 0.3, 100.0])  # no weights yet, small ones, and those beyond a norm of 10
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_lamb_moves_each_tensor_in_proportion_to_its_norm(scale, decay):
    torch.manual_seed(0)
    start, gradients = scale * torch.randn(3, 4, dtype=torch.float64), torch.randn(5, 3, 4, dtype=torch.float64)
    weight, unused = nn.Parameter(start.clone()), nn.Parameter(torch.ones(2))
    optimizer = Lamb([weight, unused], lr=0.01, weight_decay=decay)
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    torch.testing.assert_close(weight.detach(), lamb_by_hand(start, gradients, 0.01, decay), atol=1e-12, rtol=1e-12)
    assert torch.equal(unused, torch.ones(2))  # it has no gradient


def test_lamb_leaves_weights_without_a_gradient_signal_as_they_are():
    weight = nn.Parameter(torch.ones(3))
    weight.grad = torch.zeros(3)
    Lamb([weight], lr=0.1).step()
    assert torch.equal(weight.detach(), torch.ones(3))
