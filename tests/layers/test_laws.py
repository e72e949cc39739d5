"""The laws of every mixer, over all that MIXERS names: what a backbone, a generator and a benchmark rely on.

Two states are compared by what follows from them, since each mixer has its own kind.
"""

import copy
import math
import pickle

import pytest
import safetensors.torch
import torch
from dense import error, gradients
from hypothesis import given, settings
from hypothesis import strategies as st
from mixer_settings import known
from pairwise import in_one_case
from torch.nn import Module

from longwave import param_groups
from longwave.layers import MIXERS, make_mixer

H = 8
LONG = 150  # more than a block of linear attention (128), and more than two sizes of a cache (64, 128)
CLOSE = 1e-12  # float64; the worst that was seen is below 3e-14
# Settings under which a mixer has other parameters, or computes them another way.
VARIANTS = {
    "s4 softplus": {"dt_transform": "softplus"},
    "s4 pq": {"low_rank": "pq"},
    "s4 turns": {"n_ssm": 2, "sharing": "turns"},
    "s4 exp": {"re_transform": "exp"},
    "s4d bilinear": {"rule": "bilinear"},
}
every_mixer = pytest.mark.parametrize("name", MIXERS)
every_computation = pytest.mark.parametrize("name", [*MIXERS, *VARIANTS])  # where the settings above have a say
mixers = st.sampled_from(sorted([*MIXERS, *VARIANTS]))
both_ways = in_one_case(bidirectional=[False, True])


def make(name, seed=0, dtype=torch.float64, **options):
    """A small layer whose memory is about as long as the test's signals."""
    torch.default_generator.manual_seed(seed)
    torch.set_default_dtype(dtype)
    try:
        small = {"d_state": 6, "heads": 2, "features": 24, "dt_min": 0.01, "dt_max": 0.3}
        kind = name.partition(" ")[0]
        return make_mixer(kind, H, **known(kind, **small | VARIANTS.get(name, {}) | options))
    finally:
        torch.set_default_dtype(torch.float32)


def signal(batch=2, L=20, seed=1, dtype=torch.float64):
    return torch.randn(batch, L, H, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def by_steps(layer, u, state=None):
    state, outputs = layer.initial_state(len(u)) if state is None else state, []
    for u_t in u.unbind(1):
        y_t, state = layer.step(u_t, state)
        outputs.append(y_t)
    return torch.stack(outputs, dim=1), state


def by_chunks(layer, u, sizes, state=None):
    outputs = []
    for chunk in u.split(sizes, dim=1):
        y, state = layer(chunk, state)
        outputs.append(y)
    return torch.cat(outputs, dim=1), state


def close(value, true, bound=CLOSE):
    assert value.dtype == true.dtype
    assert error(value, true) < bound


def what_follows(layer, state, rows=slice(None), batch=2):
    """The outputs of five more steps: the same for the same state."""
    return layer(signal(batch, 5, seed=77), state)[0][rows]


# The contract


@every_mixer
@in_one_case(bidirectional=[False, True], dtype=[torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_y_has_the_shape_and_dtype_of_u(name, bidirectional, dtype):
    layer, u = make(name, dtype=torch.float32, bidirectional=bidirectional), signal(3, 9, dtype=dtype)
    y, state = layer(u)
    assert (y.shape, y.dtype) == (u.shape, dtype)
    assert torch.isfinite(y).all()
    assert layer(u, need_state=False)[1] is None
    if bidirectional:
        assert state is None
        return
    y_t, state = layer.step(u[:, 0], state)
    assert (y_t.shape, y_t.dtype) == ((3, H), dtype)
    assert layer(u, state, need_state=False)[1] is None


@every_computation
def test_step_equals_forward(name):
    layer, u = make(name).requires_grad_(False), signal(2, LONG)
    y, after = layer(u)
    y_steps, after_steps = by_steps(layer, u)
    close(y_steps, y)
    close(what_follows(layer, after_steps), what_follows(layer, after))


@every_computation
def test_step_equals_forward_in_float32(name):
    """The worst seen is below 3e-7."""
    layer, u = make(name, dtype=torch.float32).requires_grad_(False), signal(2, LONG, dtype=torch.float32)
    y, after = layer(u)
    y_steps, after_steps = by_steps(layer, u)
    close(y_steps, y, 2e-6)
    close(layer(u[:, :5], after_steps)[0], layer(u[:, :5], after)[0], 2e-6)


@every_computation
@in_one_case(batch=[1, 3])
def test_one_step_is_a_sequence(name, batch):
    layer, u = make(name), signal(batch, 1)
    y, after = layer(u)
    y_t, after_step = layer.step(u[:, 0], layer.initial_state(batch))
    close(y_t, y[:, 0])
    close(what_follows(layer, after_step, batch=batch), what_follows(layer, after, batch=batch))
    two_ways = make(name, bidirectional=True)
    assert torch.isfinite(two_ways(u)[0]).all()


@given(mixers, st.lists(st.integers(1, 90), min_size=1, max_size=5), st.booleans())
@settings(max_examples=40)
def test_chunks_of_any_size_equal_the_whole(name, sizes, differentiable):
    layer, u = make(name).requires_grad_(differentiable), signal(2, sum(sizes))
    y, after = layer(u)
    y_chunks, after_chunks = by_chunks(layer, u, sizes)
    close(y_chunks, y)
    close(what_follows(layer, after_chunks), what_follows(layer, after))


@every_mixer
def test_the_initial_state_is_no_state(name):
    layer, u = make(name), signal()
    (y, after), (y_started, after_started) = layer(u), layer(u, layer.initial_state(2))
    close(y_started, y)
    close(what_follows(layer, after_started), what_follows(layer, after))


@every_mixer
def test_a_step_without_a_state_is_the_first_of_a_sequence(name):
    layer, u = make(name), signal()
    y, after = layer(u[:, :1])
    y_t, after_step = layer.step(u[:, 0])
    close(y_t, y[:, 0])
    close(what_follows(layer, after_step), what_follows(layer, after))


@every_mixer
@both_ways
def test_a_layer_that_returns_no_state_returns_the_same_y_alone(name, bidirectional):
    layer, u = make(name, bidirectional=bidirectional), signal()
    alone = copy.deepcopy(layer)
    alone.return_state = False
    calls = [{}, {"lengths": torch.tensor([7, 20])}, {"rate": 2.0}, {"state": None if bidirectional else layer(u)[1]}]
    for more in calls:
        if "rate" not in more or MIXERS[name]().supports_rate:
            assert torch.equal(alone(u, **more), layer(u, **more)[0])
    if not bidirectional:
        close(alone.step(u[:, 0])[0], layer.step(u[:, 0])[0])
        close(what_follows(layer, alone.step(u[:, 0])[1]), what_follows(layer, layer.step(u[:, 0])[1]))


@every_mixer
def test_a_layer_that_returns_no_state_trains_in_a_sequential_model(name):
    torch.manual_seed(0)
    layer = type(make(name))(H, return_state=False)
    model = torch.nn.Sequential(torch.nn.Linear(3, H), layer, torch.nn.Linear(H, 2))
    optimiser = torch.optim.SGD(param_groups(model, lr=0.01))
    u, losses = torch.randn(4, 9, 3), []
    for _ in range(2):
        loss = (model(u) - 1).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[1] < losses[0]
    assert "return_state=False" in repr(layer)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(other(u), model(u))
    type(layer)(H).load_state_dict(layer.state_dict())


@every_mixer
@in_one_case(differentiable=[False, True])
def test_a_state_can_be_gone_on_from_more_than_once(name, differentiable):
    """No call changes what its caller holds, although a cache is written in place."""
    layer, past = make(name).requires_grad_(differentiable), signal(2, 70)
    branches = [signal(2, n, seed=n) for n in (1, 2, 9)]
    for before, start in ((past[:, :0], layer.initial_state(2)), (past, layer(past)[1])):
        results = [go_on(layer, u, start) for go_on in (Module.__call__, by_steps) for u in branches]
        for u, (y, after) in zip(2 * branches, results, strict=True):
            following = what_follows(layer, after)
            whole = torch.cat((before, u, signal(2, 5, seed=77)), dim=1)
            close(torch.cat((y, following), dim=1), layer(whole)[0][:, before.shape[1] :])


@every_computation
def test_a_causal_layer_does_not_see_the_future(name):
    layer, u = make(name), signal().requires_grad_()
    (du,) = torch.autograd.grad(layer(u)[0][:, 7].square().sum(), u)
    assert du[:, 8:].abs().max() < 1e-13
    assert (du[:, :8].abs().amax(-1) > 0).all()


@every_computation
def test_a_bidirectional_layer_sees_both_sides(name):
    layer, u = make(name, bidirectional=True), signal().requires_grad_()
    (du,) = torch.autograd.grad(layer(u)[0][:, 7].square().sum(), u)
    assert (du.abs().amax(-1) > 0).all()


@every_computation
@both_ways
def test_rows_do_not_see_each_other(name, bidirectional):
    layer, u = make(name, bidirectional=bidirectional), signal(3, 33)
    expected, after = layer(u)
    changed = u.clone()
    changed[1, 5] = math.nan
    y, state = layer(changed)
    close(y[[0, 2]], expected[[0, 2]])
    for row in range(3):
        close(expected[row : row + 1], layer(u[row : row + 1])[0])
    if not bidirectional:
        rows = [0, 2]
        close(what_follows(layer, state, rows, batch=3), what_follows(layer, after, rows, batch=3))


# Padding


@given(st.data(), mixers, st.integers(1, 40), st.booleans(), st.booleans())
@settings(max_examples=50)
def test_padding_changes_nothing(data, name, L, started, bidirectional):
    lengths = data.draw(st.lists(st.integers(0, L), min_size=1, max_size=4))
    layer, u, batch = make(name, bidirectional=bidirectional), signal(len(lengths), L), len(lengths)
    started = started and not bidirectional
    prefix = signal(batch, 3, seed=5)
    # Rows that have come to different places, too.
    counts = torch.tensor([3, 1, 2, 0][:batch])
    state = layer(prefix, lengths=counts)[1] if started else None
    for row, count in enumerate(lengths):
        u[row, count:] = [math.nan, math.inf, -1e30, 5.0][row]
    y, after = layer(u, state, lengths=torch.tensor(lengths))
    following = None if bidirectional else what_follows(layer, after, batch=batch)
    stepped = None if bidirectional else by_steps(layer, signal(batch, 5, seed=77), after)[0]
    for row, count in enumerate(lengths):
        past = prefix[row : row + 1, : counts[row] if started else 0]
        alone = torch.cat((past, u[row : row + 1, :count]), dim=1)
        more = signal(batch, 0 if bidirectional else 5, seed=77)[row : row + 1]
        whole = torch.cat((alone, more), dim=1)
        if whole.shape[1]:
            y_alone = layer(whole)[0]
            close(y[row, :count], y_alone[0, past.shape[1] : alone.shape[1]])
            if not bidirectional:
                close(following[row], y_alone[0, alone.shape[1] :])
                close(stepped[row], y_alone[0, alone.shape[1] :])
        assert (y[row, count:] == 0).all()


@every_computation
@both_ways
def test_padding_reaches_no_gradient(name, bidirectional):
    """The gradients of a padded batch are the sums of its rows' own."""
    layer, lengths = make(name, bidirectional=bidirectional), [4, 10, 0]
    u, more = signal(3, 10), signal(3, 5, seed=77)
    for row, count in enumerate(lengths):
        u[row, count:] = math.nan
    u.requires_grad_()
    inputs = [u, *layer.parameters()]

    def loss(u, lengths, more):
        y, after = layer(u, lengths=None if lengths is None else torch.tensor(lengths))
        return y.square().sum() + (0 if bidirectional else layer(more, after)[0].square().sum())

    grads = torch.autograd.grad(loss(u, lengths, more), inputs)
    assert all(torch.isfinite(grad).all() for grad in grads)
    total = sum(loss(u[row : row + 1, :count], None, more[row : row + 1]) for row, count in enumerate(lengths[:2]))
    if not bidirectional:
        total = total + layer(more[2:])[0].square().sum()
    for value, true in zip(grads, torch.autograd.grad(total, inputs), strict=True):
        close(value, true, 1e-11)
    assert (grads[0][0, 4:] == 0).all()
    assert (grads[0][2] == 0).all()


@every_mixer
@in_one_case(start=["nothing", "the initial state", "bidirectional"])
def test_a_batch_of_no_steps_is_nothing(name, start):
    layer, u = make(name, bidirectional=start == "bidirectional"), torch.full((2, 4, H), math.nan, dtype=torch.float64)
    state = layer.initial_state(2) if start == "the initial state" else None
    y, after = layer(u.requires_grad_(), state, lengths=torch.tensor([0, 0]))
    assert (y == 0).all()
    total = y.sum()
    if start != "bidirectional":
        following = what_follows(layer, after)
        close(following, what_follows(layer, None))
        total = total + following.sum()
    grads = torch.autograd.grad(total, [u, *layer.parameters()], materialize_grads=True)
    assert all(torch.isfinite(grad).all() for grad in grads)


@every_mixer
@both_ways
def test_the_amount_of_padding_does_not_matter(name, bidirectional):
    layer, u, lengths = make(name, bidirectional=bidirectional), signal(2, 12), torch.tensor([7, 12])
    y, after = layer(u, lengths=lengths)
    wide = torch.cat((u, torch.full((2, LONG, H), math.nan, dtype=u.dtype)), dim=1)
    y_wide, after_wide = layer(wide, lengths=lengths)
    close(y_wide[:, :12], y)
    if not bidirectional:
        close(what_follows(layer, after_wide), what_follows(layer, after))


# Gradients


@every_computation
def test_gradients_of_steps_and_chunks_equal_those_of_the_whole(name):
    layer, u = make(name), signal(2, 13).requires_grad_()
    inputs = [u, *layer.parameters()]

    def weighted(y, state):
        return gradients(torch.cat((y, what_follows(layer, state)), dim=1), inputs)

    expected = weighted(*layer(u))
    for result in (by_steps(layer, u), by_chunks(layer, u, [4, 1, 8])):
        for value, true in zip(weighted(*result), expected, strict=True):
            close(value, true, 1e-11)


@every_computation
@in_one_case(bidirectional=[False, True], L=[1, 2, LONG])
def test_every_parameter_has_a_finite_gradient(name, bidirectional, L):
    layer, u = make(name, dtype=torch.float32, bidirectional=bidirectional), signal(2, L, dtype=torch.float32)
    (layer(u)[0] * torch.linspace(-1, 2, H)).square().sum().backward()
    for parameter_name, parameter in layer.named_parameters():
        assert torch.isfinite(parameter.grad).all(), parameter_name
        # A softmax over one key has nothing to decide, and the past has no say in the first step.
        assert L < 3 or parameter.grad.abs().max() > 0, parameter_name


@every_mixer
def test_a_layer_learns_to_remember(name):
    """The value two steps ago, by gradient descent from the first seed."""
    layer = make(name, dtype=torch.float32, d_state=16, dt_min=0.1, dt_max=0.5)
    readout = torch.nn.Linear(H, H)
    optimiser = torch.optim.Adam(param_groups(torch.nn.Sequential(layer, readout), lr=0.02, ssm_lr=0.02))
    losses = []
    for k in range(80):
        u = signal(8, 16, seed=1000 + k, dtype=torch.float32)
        loss = (readout(layer(u, need_state=False)[0])[:, 2:] - u[:, :-2]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) < 0.9 * sum(losses[:5])


# Precision and modes


@every_computation
@in_one_case(dtype=[torch.bfloat16, torch.float16])
def test_a_layer_in_half_precision_runs_and_trains(name, dtype):
    layer, u = make(name, dtype=torch.float32).to(dtype), signal(2, 9, dtype=dtype)
    y, state = layer(u)
    following, _ = layer(u, state, lengths=torch.tensor([3, 9]))
    y_steps, _ = by_steps(layer, u)
    (y.float().square().sum() + following.float().sum()).backward()
    assert {y.dtype, following.dtype, y_steps.dtype} == {dtype}
    close(y_steps, y, 0.05)
    assert all(p.grad.dtype == dtype and torch.isfinite(p.grad).all() for p in layer.parameters())


@every_mixer
def test_autocast_runs_both_views(name):
    """bfloat16 has 8 bits; a layer that leaves them for float32 inside is closer."""
    layer, u = make(name, dtype=torch.float32).requires_grad_(False), signal(2, 9, dtype=torch.float32)
    expected, _ = layer(u)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(u)
        y_steps, state_steps = by_steps(layer, u)
        narrow, _ = layer(u.bfloat16())
        following = layer(u, state)[0]
    assert (y.dtype, y_steps.dtype, narrow.dtype) == (torch.float32, torch.float32, torch.bfloat16)
    close(y, expected, 0.05)
    close(y_steps, expected, 0.05)
    close(layer(u, state_steps)[0], following, 0.05)  # a state from autocast serves outside of it


@every_mixer
def test_what_inference_mode_made_is_of_use_outside(name):
    layer, u = make(name), signal(2, 9)
    expected, _ = layer(torch.cat((u, u), dim=1))
    with torch.inference_mode():
        _, state = layer(u)
    with torch.no_grad():
        close(by_steps(layer, u, state)[0], expected[:, 9:])
        close(layer(u, state)[0], expected[:, 9:])
    with torch.inference_mode():
        close(by_steps(layer, u, state)[0], expected[:, 9:])


@every_mixer
def test_a_state_from_a_training_pass_is_not_written_to(name):
    """Steps without gradients that go on from it leave its backward pass as it was."""
    layer, u = make(name), signal(2, 9)
    expected = gradients(layer(u)[0], list(layer.parameters()))
    y, state = layer(u)
    with torch.no_grad():
        by_steps(layer, u, state)
    for value, true in zip(gradients(y, list(layer.parameters())), expected, strict=True):
        close(value, true)


# Copies and files


@every_computation
@both_ways
def test_weights_carry_a_layer_over_to_the_bit(name, bidirectional, tmp_path):
    layer, u = make(name, bidirectional=bidirectional), signal()
    other, third = (make(name, seed=7, bidirectional=bidirectional) for _ in range(2))
    assert not torch.equal(layer(u)[0], other(u)[0])
    other.load_state_dict(layer.state_dict())
    safetensors.torch.save_model(layer, str(tmp_path / "layer.safetensors"))
    safetensors.torch.load_model(third, str(tmp_path / "layer.safetensors"))
    assert torch.equal(layer(u)[0], other(u)[0])
    assert torch.equal(layer(u)[0], third(u)[0])


@every_mixer
@in_one_case(duplicate=[copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer))])
def test_a_copy_is_a_layer_of_its_own(name, duplicate):
    layer, u = make(name).requires_grad_(False), signal()
    y, _ = by_steps(layer, u)  # fills what is kept between steps
    other = duplicate(layer)
    assert torch.equal(layer(u)[0], other(u)[0])
    for parameter in other.parameters():
        parameter.mul_(1.1)
    close(by_steps(layer, u)[0], y)
    close(by_steps(other, u)[0], other(u)[0])
    assert error(other(u)[0], y) > 1e-3


@every_mixer
@both_ways
def test_the_same_seed_gives_the_same_bits(name, bidirectional):
    layers = [make(name, dtype=torch.float32, bidirectional=bidirectional) for _ in range(2)]
    for layer in layers:
        layer(signal(dtype=torch.float32))[0].square().sum().backward()
    for a, b in zip(*(layer.parameters() for layer in layers), strict=True):
        assert torch.equal(a, b)
        assert torch.equal(a.grad, b.grad)
    assert all(torch.equal(a, b) for a, b in zip(*(layer.buffers() for layer in layers), strict=True))


@every_computation
def test_a_step_is_never_stale(name):
    layer, u = make(name).requires_grad_(False), signal(2, 5)
    for _ in range(2):
        close(by_steps(layer, u)[0], layer(u)[0])
        for parameter in layer.parameters():
            parameter.data.mul_(1.05)


# Rates


@every_computation
def test_a_rate_is_taken_by_state_spaces_and_refused_by_the_rest(name):
    layer, u = make(name), signal()
    if MIXERS[name.partition(" ")[0]]().supports_rate:
        assert error(layer(u, rate=2.0)[0], layer(u)[0]) > 0.01
        y_t, _ = layer.step(u[:, 0], layer.initial_state(2), rate=2.0)
        close(y_t, layer(u, rate=2.0)[0][:, 0])
        return
    message = r"^rate: expected 1\.0, because .* has no notion of the time between steps, got 2\.0; resample the input"
    with pytest.raises(ValueError, match=message):
        layer(u, rate=2.0)
    with pytest.raises(ValueError, match=message):
        layer.step(u[:, 0], layer.initial_state(2), rate=2.0)


# Bad input


BAD_INPUT = [
    (lambda m, s: m(torch.zeros(2, H)), r"u: expected a floating-point tensor \(batch, L, 8\), got torch\.float32"),
    (lambda m, s: m(torch.zeros(2, 5, H + 1)), r"u: expected .*\(batch, L, 8\), got torch\.float32 \(2, 5, 9\)"),
    (lambda m, s: m(torch.zeros(2, 5, H, dtype=torch.int64)), r"u: expected a floating-point .* got torch\.int64"),
    (lambda m, s: m([1.0]), r"u: expected a floating-point tensor \(batch, L, 8\), got \[1\.0\]"),
    (lambda m, s: m(torch.zeros(2, 0, H)), r"u: expected at least one row and one step"),
    (lambda m, s: m(torch.zeros(0, 5, H)), r"u: expected at least one row and one step"),
    (lambda m, s: m.step(torch.zeros(2, 1, H), s), r"u: expected .*\(batch, 8\), got torch\.float32 \(2, 1, 8\)"),
    (
        lambda m, s: m.step(torch.zeros(3, H), s),
        "state: expected .*3.* as returned by initial_state",
    ),
    (lambda m, s: m.step(torch.zeros(2, H), 0), "state: expected .*2.* as returned by initial_state .*, got 0"),
    (lambda m, s: m.step(torch.zeros(0, H)), r"u: expected at least one row and one step"),
    (lambda m, s: m(torch.zeros(3, 5, H), s), "state: expected .*3.* as returned by initial_state"),
    (lambda m, s: m(torch.zeros(2, 5, H), 0), "state: expected .*2.* as returned by initial_state .*, got 0"),
    (lambda m, s: m(torch.zeros(2, 5, H), lengths=torch.tensor([1])), "lengths: expected 2 whole numbers"),
    (lambda m, s: m(torch.zeros(2, 5, H), lengths=torch.tensor([1.0, 2.0])), "lengths: expected 2 whole numbers"),
    (lambda m, s: m(torch.zeros(2, 5, H), lengths=[1, 6]), "lengths: expected numbers from 0 to 5, got 1 to 6"),
    (lambda m, s: m(torch.zeros(2, 5, H), lengths=[-1, 2]), "lengths: expected numbers from 0 to 5, got -1 to 2"),
    (lambda m, s: m.initial_state(0), "batch: expected a whole number, at least 1, got 0"),
    (lambda m, s: m.initial_state(1.0), r"batch: expected a whole number, at least 1, got 1\.0"),
]


@every_mixer
@pytest.mark.usefixtures("unchecked")
def test_bad_input_is_refused(name):
    layer = make(name, dtype=torch.float32)
    for call, message in BAD_INPUT:
        with pytest.raises(ValueError, match=f"^{message}"):
            call(layer, layer.initial_state(2))


@every_mixer
def test_a_bidirectional_layer_refuses_states_and_says_what_to_do(name):
    state, layer = make(name, dtype=torch.float32).initial_state(2), make(name, dtype=torch.float32, bidirectional=True)
    for what, call in {
        "initial_state": lambda: layer.initial_state(2),
        "step": lambda: layer.step(torch.zeros(2, H), state),
        "state": lambda: layer(torch.zeros(2, 5, H), state),
    }.items():
        with pytest.raises(ValueError, match=rf"^{what}: a bidirectional layer has no state.*bidirectional=False"):
            call()


@pytest.mark.usefixtures("unchecked")
@in_one_case(name=MIXERS, value=[0, -2, 4.0, True])
def test_a_size_that_is_none_is_refused(name, value):
    with pytest.raises(ValueError, match=f"^d_model: expected a whole number, at least 1, got {value!r}$"):
        make_mixer(name, value)


def test_an_unknown_mixer_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"^unknown mixer 's5'; expected one of .*s4.*; did you mean 's4'\?$"):
        make_mixer("s5", H)
