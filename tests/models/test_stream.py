"""A model on a sequence that comes in pieces: the same outputs as on the whole, whatever the pieces."""

import copy
import itertools

import pytest
import torch
from dense import run_python
from hypothesis import given, settings
from hypothesis import strategies as st
from mixer_settings import sequence_config
from pairwise import in_one_case

import longwave
from longwave.layers import MIXERS, S4Config
from longwave.models import Classifier, ClassifierConfig, SequenceModel, WaveformCNN
from longwave.models import stream as streams

L = 40
KINDS = {
    "layer norm": {},
    "batch norm": {"norm": "batch"},
    "scalar norm": {"norm": "scalar"},
    "norm after": {"prenorm": False, "norm": "batch"},
    "feed-forward": {"feed_forward": 12},
    "truncated": {"mixer": S4Config(d_state=4, length=9)},
    "softplus": {"mixer": S4Config(d_state=4, dt_transform="softplus")},
}
FIXED = sorted(kind for kind in MIXERS if MIXERS[kind]().has_fixed_state)
STATE_SPACES = sorted(kind for kind in MIXERS if MIXERS[kind]().supports_rate)


def make(dtype=torch.float64, **config):
    """A small model in evaluation, with statistics of batch norm that are not 0 and 1."""
    defaults = {"d_model": 8, "n_layers": 2, "input_size": 3, "output_size": 5, "mixer": S4Config(d_state=4)}
    model = SequenceModel(**(defaults | config)).to(dtype)
    model.train()(torch.randn(4, 30, 3, dtype=dtype))
    return model.eval()


def noise(batch=1, length=L, dtype=torch.float64):
    return torch.randn(batch, length, 3, dtype=dtype)


def whole(model, x, hop=1, window=None, rate=1.0):
    """What a stream is to give, each output by a forward pass of its own."""
    ends = range(hop, x.shape[1] + 1, hop)
    if model.config.decoder == "sequence":
        return model(x, rate=rate)[0][:, hop - 1 :: hop]
    if window is None:
        return torch.stack([model(x[:, :end], rate=rate)[0] for end in ends], 1)
    z = features(model, x, rate)
    means = torch.stack([z[:, max(0, end - window) : end].mean(1) for end in ends], 1)
    return model.decoder.linear(means)


def features(model, x, rate=1.0):
    """What the decoder of a model sees of a sequence."""
    seen = []
    hook = model.decoder.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    model(x, rate=rate)
    hook.remove()
    return seen[0]


def pushed(live, x, cuts):
    """The outputs of a stream for x cut at these places."""
    places = [0, *sorted(cuts), x.shape[1]]
    return torch.cat([live.push(x[:, a:b]) for a, b in itertools.pairwise(places)], dim=1)


@pytest.fixture
def short_chunks(monkeypatch):
    """Chunks of a few steps, so that a short sequence has chunks and steps."""
    monkeypatch.setattr(streams, "SHORTEST", 3)
    monkeypatch.setattr(streams, "LONGEST", 16)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("kind", KINDS)
@in_one_case(decoder=["mean", "last", "sequence"])
def test_any_pieces_give_what_the_whole_gives(kind, decoder):
    """In float64 to 1e-12 of outputs of about 1: the conditioning of the chunks, not of the pieces."""
    model, x = make(decoder=decoder, **KINDS[kind]), noise(2)
    expected = whole(model, x, hop=3)
    for cuts in ([], range(1, L), [1, 2, 20], [5, 5, 23, 39]):
        y = pushed(longwave.stream(model, hop=3, batch=2), x, cuts)
        assert y.shape == (2, L // 3, 5)
        torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("short_chunks")
@pytest.mark.parametrize("mixer", FIXED)
def test_every_mixer_with_a_state_of_fixed_size_streams(mixer):
    model = SequenceModel(sequence_config(mixer, d_model=8, n_layers=2, input_size=3, output_size=5)).double().eval()
    x = noise(2)
    live = longwave.stream(model, hop=4, batch=2)
    torch.testing.assert_close(pushed(live, x, [1, 9, 30]), whole(model, x, 4), rtol=1e-9, atol=1e-10)
    other = longwave.stream(model, hop=4, batch=2)
    other.state = live.state
    more = noise(2, 8)
    assert torch.equal(other.push(more), live.push(more))


@pytest.mark.usefixtures("compiled")
def test_compiled_steps_and_chunks_give_what_the_whole_gives_in_float32():
    """To 2e-5 of outputs of about 1: single precision, through two layers and 300 steps."""
    model, x = make(torch.float32, d_model=16, norm="batch"), noise(1, 300, torch.float32)
    expected = whole(model, x, hop=50)
    for cuts in (range(1, 300), [150], [100, 101, 250]):
        live = longwave.stream(model, hop=50)
        assert live._engine.recurrence.is_compiled
        torch.testing.assert_close(pushed(live, x, cuts), expected, rtol=2e-5, atol=2e-5)


@given(
    cuts=st.lists(st.integers(0, L), max_size=8),
    hop=st.integers(1, 12),
    window=st.one_of(st.none(), st.integers(1, 50)),
    shortest=st.sampled_from([1, 4, 100]),
)
@settings(max_examples=25)
def test_windows_are_exact_for_any_pieces(cuts, hop, window, shortest):
    """Against the mean over the features of the window itself, whether or not the hop divides it."""
    torch.manual_seed(0)
    model, x = make(n_layers=1), noise()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "SHORTEST", shortest)
        live = longwave.stream(model, hop=hop, window=window)
        y = pushed(live, x, cuts)
    torch.testing.assert_close(y, whole(model, x, hop, window), rtol=1e-10, atol=1e-12)
    assert live.steps == L


@pytest.mark.parametrize("mixer", STATE_SPACES)
def test_another_rate_is_that_of_the_forward_pass(mixer):
    model = SequenceModel(sequence_config(mixer, d_model=8, n_layers=1, input_size=3, output_size=5)).double().eval()
    x = noise()
    live = longwave.stream(model, hop=5, rate=1.7)
    torch.testing.assert_close(pushed(live, x, [7]), whole(model, x, 5, rate=1.7), rtol=1e-10, atol=1e-12)


def test_tokens_stream_too():
    model = SequenceModel(d_model=8, n_layers=1, vocabulary=7, output_size=7, decoder="sequence").double().eval()
    tokens = torch.randint(7, (2, 20))
    torch.testing.assert_close(longwave.stream(model, batch=2).push(tokens), model(tokens)[0])


# Models that need a whole sequence


def wholes():
    """Models that cannot carry a state of fixed size, in double precision."""
    both = S4Config(d_state=4, bidirectional=True)
    yield from (make(mixer=both, decoder=decoder) for decoder in ("mean", "last", "sequence"))
    yield make(mixer="attention")
    yield Classifier(ClassifierConfig(convolutions=84, d_model=4, n_layers=1, input_size=3, output_size=5, longest=9))
    yield WaveformCNN(width=4, n_layers=2, input_size=3, output_size=5)


@pytest.mark.parametrize("model", [model.double().eval() for model in wholes()], ids=lambda model: model.config.label)
@pytest.mark.parametrize(("hop", "window"), [(1, 9), (4, 6), (5, 3)])
def test_a_sliding_window_gives_what_the_model_gives_for_its_steps(model, hop, window):
    x = noise(2)
    ends = range(hop, L + 1, hop)
    expected = torch.stack([last(model(x[:, max(0, end - window) : end])[0]) for end in ends], dim=1)
    for cuts in ([], range(1, L), [1, 2, 20], [5, 5, 23, 39]):
        live = longwave.stream(model, hop=hop, window=window, batch=2)
        torch.testing.assert_close(pushed(live, x, cuts), expected, rtol=1e-10, atol=1e-12)
        assert live.steps == L


def last(y):
    """The output for the last step, where there is one for each."""
    return y[:, -1] if y.ndim == 3 else y


def test_a_sliding_window_over_tokens_and_at_another_rate():
    mixer = S4Config(d_state=4, bidirectional=True)
    model = SequenceModel(d_model=8, n_layers=1, vocabulary=7, output_size=5, mixer=mixer).double().eval()
    tokens = torch.randint(7, (2, 20))
    y = longwave.stream(model, hop=5, window=8, batch=2, rate=1.7).push(tokens)
    torch.testing.assert_close(y[:, -1], model(tokens[:, -8:], rate=1.7)[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_steps_that_are_skipped_count_as_if_they_were_pushed(bidirectional):
    model, x = make(mixer=S4Config(d_state=4, bidirectional=bidirectional)), noise()
    whole, part = (longwave.stream(model, hop=3, window=7) for _ in range(2))
    part.skip(x[:, :20])
    torch.testing.assert_close(part.push(x[:, 20:]), whole.push(x)[:, 6:], rtol=1e-10, atol=1e-12)


def test_the_state_of_a_sliding_window_is_saved_and_copied(tmp_path):
    model, x = make(mixer=S4Config(d_state=4, bidirectional=True)), noise()
    live = longwave.stream(model, hop=3, window=7)
    live.push(x[:, :20])
    live.save(tmp_path / "state.safetensors")
    again, branch = longwave.stream(model, hop=3, window=7).load(tmp_path / "state.safetensors"), live.copy()
    y = live.push(x[:, 20:])
    assert torch.equal(again.push(x[:, 20:]), y)
    assert torch.equal(branch.push(x[:, 20:]), y)


# The state


@pytest.mark.parametrize(("decoder", "window"), [("mean", None), ("mean", 6), ("last", None), ("sequence", None)])
def test_a_saved_state_goes_on_with_a_saved_model_to_the_bit(decoder, window, tmp_path):
    model, x = make(decoder=decoder), noise(length=150)
    live = longwave.stream(model, hop=4, window=window)
    live.push(x[:, :101])
    live.save(tmp_path / "state.safetensors")
    model.save_pretrained(tmp_path / "model")
    again = longwave.load_model(tmp_path / "model").eval()
    again = longwave.stream(again, hop=4, window=window).load(tmp_path / "state.safetensors")
    assert again.steps == 101
    assert torch.equal(again.push(x[:, 101:]), live.push(x[:, 101:]))


@pytest.mark.slow
def test_a_saved_state_goes_on_in_another_process(tmp_path):
    model, x = make(), noise(length=150)
    live = longwave.stream(model, hop=4, window=6)
    live.push(x[:, :101])
    live.save(tmp_path / "state.safetensors")
    model.save_pretrained(tmp_path / "model")
    torch.save(x[:, 101:], tmp_path / "x.pt")
    code = (
        f"import torch, longwave; model = longwave.load_model({str(tmp_path / 'model')!r}).eval();"
        f"live = longwave.stream(model, hop=4, window=6).load({str(tmp_path / 'state.safetensors')!r});"
        f"torch.save(live.push(torch.load({str(tmp_path / 'x.pt')!r})), {str(tmp_path / 'y.pt')!r})"
    )
    run_python(code)
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), live.push(x[:, 101:]), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("duplicate", [longwave.models.stream.Stream.copy, copy.copy, copy.deepcopy])
def test_a_copy_goes_on_by_itself(duplicate):
    model, x, other = make(), noise(), noise()
    live = longwave.stream(model, hop=4, window=8)
    live.push(x[:, :10])
    branch = duplicate(live)
    first, second = live.push(other), branch.push(x[:, 10:])
    torch.testing.assert_close(second, whole(model, x, 4, 8)[:, 2:], rtol=1e-10, atol=1e-12)
    joined = torch.cat((x[:, :10], other), 1)
    torch.testing.assert_close(first, whole(model, joined, 4, 8)[:, 2:], rtol=1e-10, atol=1e-12)


@pytest.mark.usefixtures("short_chunks")
def test_the_state_stays_as_large_as_it_is():
    live = longwave.stream(make(n_layers=1), hop=3, window=12)
    sizes = {name: values.numel() for name, values in live.state.items()}
    for length in (1, 50, 7, 200, 3):
        live.push(noise(length=length))
        assert {name: values.numel() for name, values in live.state.items()} == sizes


def test_a_state_is_a_copy():
    live = longwave.stream(make())
    live.push(noise())
    state = live.state
    before = {name: values.clone() for name, values in state.items()}
    live.push(noise())
    assert all(torch.equal(state[name], before[name]) for name in state)


def test_sums_do_not_drift_over_a_long_stream():
    """A constant in, after the transient: windows far apart have the same mean to 1e-12."""
    model = make(n_layers=1)
    live = longwave.stream(model, hop=100, window=300)
    x = torch.ones(1, 20_000, 3, dtype=torch.float64)
    early = live.push(x)[:, -1]
    live._engine.pooling.state["sum"] += 1.0  # an error, such as rounding could make
    late = live.push(x)[:, -1]
    torch.testing.assert_close(late, early, rtol=1e-9, atol=1e-9)


# What is refused


def test_what_cannot_stream_is_refused_with_the_reason():
    both = make(mixer=S4Config(d_state=4, bidirectional=True))
    with pytest.raises(ValueError, match=r"it is bidirectional.*window.*no-bidirectional"):
        longwave.stream(both)
    with pytest.raises(ValueError, match=r"a Classifier takes whole sequences.*SequenceModel"):
        longwave.stream(Classifier(ClassifierConfig(convolutions=0)).eval())
    with pytest.raises(ValueError, match="memory would grow with the stream"):
        longwave.stream(make(mixer="attention"))
    with pytest.raises(ValueError, match=r"in training mode.*model\.eval\(\)"):
        longwave.stream(make().train())
    with pytest.raises(ValueError, match="takes whole sequences or windows"):
        longwave.stream(SequenceModel(decoder="forecast", horizon=3).eval())
    words = {"vocabulary": 9, "output_size": 9, "cutoffs": (4,)}
    with pytest.raises(ValueError, match=r"an adaptive softmax \(cutoffs\).*longwave.generate"):
        longwave.stream(SequenceModel(d_model=4, n_layers=1, decoder="sequence", **words).eval())
    with pytest.raises(ValueError, match=r"expected a longwave model.*got Linear"):
        longwave.stream(torch.nn.Linear(3, 3))
    with pytest.raises(ValueError, match=r"^rate: LSTM has no notion of the time between steps; expected 1.0, got 2"):
        longwave.stream(make(mixer="lstm"), rate=2)


def test_wrong_arguments_are_named():
    model = make()
    for name, wrong in {"hop": 0, "window": 0, "batch": 1.5, "rate": -1.0}.items():
        with pytest.raises(ValueError, match=f"^{name}: expected"):
            longwave.stream(model, **{name: wrong})
    with pytest.raises(ValueError, match=r"^window: expected None, because this model does not average"):
        longwave.stream(make(decoder="last"), window=4)
    live = longwave.stream(model)
    with pytest.raises(ValueError, match=r"^x: expected a tensor \(1, L, 3\), got .*torch.from_numpy"):
        live.push(noise()[0].numpy())
    with pytest.raises(ValueError, match=r"^x: expected a tensor \(1, L, 3\)"):
        live.push(noise(2))
    assert live.push(noise(length=0)).shape == (1, 0, 5)


def test_the_state_of_another_stream_is_refused(tmp_path):
    model, path = make(), tmp_path / "state.safetensors"
    longwave.stream(model, hop=2).save(path)
    with pytest.raises(ValueError, match="hop: this stream has 3, but the state is of 2"):
        longwave.stream(model, hop=3).load(path)
    with pytest.raises(ValueError, match=r"weights: this stream has .*, but the state is of other weights"):
        longwave.stream(make(), hop=2).load(path)
    with pytest.raises(ValueError, match="expected the state of a stream"):
        longwave.stream(model).load(__file__)
    with pytest.raises(ValueError, match=r"only one of the two has 'pooling.begun'"):
        longwave.stream(model).state = longwave.stream(model, window=3).state


def test_a_saved_state_with_one_bit_turned_is_refused_and_changes_nothing(tmp_path):
    live, path = longwave.stream(make(), hop=2), tmp_path / "state.safetensors"
    live.push(noise(length=9))
    live.save(path)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    before = live.state
    with pytest.raises(ValueError, match="does not match its checksum"):
        live.load(path)
    assert all(torch.equal(values, before[name]) for name, values in live.state.items())


@pytest.mark.parametrize("steps", [None, 9, [9], torch.tensor(9.0), torch.tensor(-1), torch.tensor(2**62)], ids=repr)
def test_a_state_of_something_else_is_refused_and_changes_nothing(steps):
    live = longwave.stream(make(), window=4)
    live.push(noise(length=9))
    before = live.state
    with pytest.raises(ValueError, match=r"^state: steps: expected"):
        live.state = before | {"steps": steps, "pooling.sum": before["pooling.sum"] + 1}
    with pytest.raises(ValueError, match=r"^state: expected tensors by name"):
        live.state = list(before.values())
    with pytest.raises(ValueError, match=r"^state: pooling.sum: expected"):
        live.state = before | {"pooling.sum": before["pooling.sum"].to_sparse()}
    assert live.steps == 9
    assert all(torch.equal(values, before[name]) for name, values in live.state.items())
