"""A mixture of discretised logistics as the end of a model: its definition, what it sums to, generation."""

import math

import pytest
import torch

import longwave
from longwave.experiments import EXPERIMENTS
from longwave.models import SequenceModel, Spec, UNet, UNetConfig
from longwave.models.logistics import LogisticMixture

H = 6


def make(values=256, components=5, dtype=torch.float64, spread=1.0):
    torch.manual_seed(0)
    head = LogisticMixture(H, values, components).to(dtype)
    with torch.no_grad():
        head.linear.weight.normal_(0, spread)
    return head


def features(n=40, dtype=torch.float64):
    return torch.randn(n, H, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def by_definition(head, x):
    """Differences of distribution functions, with infinity beyond the first and the last value; float64."""
    w, m, s = head.linear(x).double().chunk(3, dim=-1)
    s = s.clamp(-7, 7).exp()
    edges = 2 * (torch.arange(head.values + 1, dtype=torch.float64) - 0.5) / (head.values - 1) - 1
    edges[0], edges[-1] = -math.inf, math.inf
    below = torch.sigmoid((edges[:, None] - m[:, None, :]) / s[:, None, :])
    return ((below[:, 1:] - below[:, :-1]) * w.softmax(-1)[:, None, :]).sum(-1)


@pytest.mark.parametrize(("values", "components"), [(256, 1), (256, 10), (2, 3), (5, 2)])
def test_probabilities_are_differences_of_logistic_distributions(values, components):
    head, x = make(values, components), features()
    chances = head(x)[0].exp()
    assert chances.shape == (40, values)
    torch.testing.assert_close(chances, by_definition(head, x), rtol=1e-11, atol=1e-15)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0])
def test_probabilities_add_up_to_1(dtype, bound, spread):
    """Also where all components are far outside, as sharp as they get, or flat."""
    head, x = make(dtype=dtype, spread=spread), features(dtype=dtype)
    log_chances = head(x)[0]
    assert log_chances.isfinite().all()
    assert (log_chances.double().exp().sum(-1) - 1).abs().max() < bound


def test_the_loss_is_that_of_the_probabilities_values_and_gradients():
    """nll works out one value of each step, forward all of them."""
    head, x = make(spread=3.0), features().requires_grad_()
    y = torch.randint(256, (40,), generator=torch.Generator().manual_seed(2))
    y[:3] = torch.tensor([0, 255, -100])
    losses = head.nll(x, y)
    truth = -head(x)[0].gather(1, y.clamp(min=0)[:, None]).squeeze(1)
    truth = torch.where(y == -100, 0, truth)
    torch.testing.assert_close(losses, truth, rtol=1e-12, atol=1e-13)
    assert losses[2] == 0
    found, expected = (torch.autograd.grad(loss.sum(), [x, *head.parameters()]) for loss in (losses, truth))
    for one, other in zip(found, expected, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-11)


@torch.no_grad()
def test_it_starts_near_to_uniform():
    head = LogisticMixture(H, 256, 10)
    bits = head.nll(features(256, torch.float32), torch.arange(256)) / math.log(2)
    assert abs(float(bits.mean()) - 8) < 0.2


@pytest.mark.parametrize("kind", ["stack", "U-Net"])
@torch.no_grad()
def test_a_model_generates_by_it_as_it_scores(kind):
    """What is drawn at each step has the probabilities of the forward pass over what was drawn before."""
    torch.manual_seed(0)
    sizes = {"d_model": 8, "n_layers": 1, "vocabulary": 16, "output_size": 16, "logistics": 3}
    mixer = longwave.S4Config(d_state=4)
    stack = kind == "stack"
    model = SequenceModel(**sizes, mixer=mixer, decoder="sequence") if stack else UNet(**sizes, mixer=mixer)
    model = model.double().eval()
    drawn = longwave.generate(model, torch.zeros(3, 1, dtype=torch.long), 30, seed=0)
    assert (drawn.min(), drawn.max()) == (0, 15)
    steps = longwave.models.generate.stream(model, torch.zeros(3, 1, dtype=torch.long), 30, seed=0)
    chances = torch.stack([chance for _, chance in steps], dim=1)
    x = torch.cat((torch.zeros(3, 1, dtype=torch.long), drawn[:, :-1]), dim=1)
    torch.testing.assert_close(model(x)[0].exp(), chances, rtol=1e-9, atol=1e-12)
    expected = -chances.gather(2, drawn[..., None]).squeeze(2).log()
    torch.testing.assert_close(model.nll(x, drawn)[0], expected, rtol=1e-8, atol=1e-10)


def test_a_density_model_learns_bits_by_it_and_is_saved(tmp_path):
    """The task's own loss, which falls below that of a uniform distribution on images of one grey."""
    experiment = EXPERIMENTS["mnist-density-unet-small"].with_setting("model.logistics", 4)
    task = experiment.task.on_random_data(2)
    config = UNetConfig(d_model=8, n_layers=1, logistics=4, mixer=longwave.S4Config(d_state=4)).resolve(task.spec)
    torch.manual_seed(0)
    model = config.build()
    batch = task.train.batch([0, 1])
    batch["y"] = 90 + batch["y"] % 20
    optimiser = torch.optim.Adam(longwave.param_groups(model, lr=0.02))
    for _ in range(8):
        losses = task.losses(model, batch)
        optimiser.zero_grad()
        losses.mean().backward()
        optimiser.step()
    assert losses.shape == (2, 784)
    assert losses.mean() < math.log(256) - 0.5
    model.save_pretrained(tmp_path)
    other = longwave.load_model(tmp_path)
    assert other.config.logistics == 4
    assert torch.equal(task.losses(other.eval(), batch), task.losses(model.eval(), batch))


def test_what_has_no_values_in_order_is_refused():
    words = Spec(input_size=1, output_size=9, vocabulary=9, decoders=("sequence",), is_causal=True)
    for model in (UNetConfig(logistics=2), longwave.SequenceConfig(decoder="sequence", logistics=2)):
        with pytest.raises(ValueError, match="logistics: a mixture of logistics is for values in order"):
            model.resolve(words)
    with pytest.raises(ValueError, match=r"logistics: .* expected decoder sequence and no cutoffs, got decoder mean"):
        SequenceModel(logistics=2)
    with pytest.raises(ValueError, match="logistics: expected a whole number, at least 1, got -1"):
        SequenceModel(logistics=-1, decoder="sequence", vocabulary=4, output_size=4)
    with pytest.raises(ValueError, match="logistics: a mixture of logistics needs at least 2 values, got 1"):
        UNet(d_model=4, n_layers=1, logistics=1, output_size=1)


def test_a_stream_refuses_it():
    model = SequenceModel(d_model=4, decoder="sequence", vocabulary=4, output_size=4, logistics=2).eval()
    with pytest.raises(ValueError, match="a mixture of logistics gives log-probabilities, step by step"):
        longwave.stream(model)
