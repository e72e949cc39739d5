"""Models of the authors' code as models of ours, from state dicts that an inverse map writes (tests/authors_files.py).

No file of theirs was at hand: what is compared with, besides our models, are formulas of what their code computes.
"""

import math

import pytest
import torch
from authors_files import to_authors, vary
from pairwise import grouped

import longwave
from longwave import S4Config
from longwave.models import SequenceModel, UNet
from longwave.models.authors import convert, from_authors
from longwave.models.foreign import Checkpoint

SMALL = {"d_model": 16, "n_layers": 1}
STACKS = {
    "language model": {
        **SMALL,
        "n_layers": 2,
        "mixers_per_block": 2,
        "feed_forward": 24,
        "vocabulary": 30,
        "output_size": 30,
        "cutoffs": (5, 12),
        "decoder": "sequence",
        "mixer": S4Config(d_state=6, n_ssm=1, length=12),
    },
    "both directions": {**SMALL, "n_layers": 2, "mixer": S4Config(d_state=6, bidirectional=True, length=12)},
    "batch norm after": {**SMALL, "norm": "batch", "prenorm": False, "mixer": S4Config(d_state=6)},
    "scalar norm": {**SMALL, "norm": "scalar", "mixer": S4Config(d_state=6, length=12)},
    "tokens, feed-forward": {**SMALL, "vocabulary": 7, "feed_forward": 8, "mixer": S4Config(d_state=6, init="legt")},
    "turns": {
        **SMALL,
        "n_layers": 2,
        "mixer": S4Config(d_state=6, n_ssm=4, sharing="turns", bidirectional=True, length=12),
    },
    "Q": {**SMALL, "norm": "scalar", "mixer": S4Config(d_state=6, low_rank="pq", length=12)},
    "no gate": {**SMALL, "glu": False, "input_size": 3, "output_size": 4, "mixer": S4Config(d_state=6)},
}
UNETS = {
    "SaShiMi": {
        "d_model": 4,
        "n_layers": 2,
        "poolings": (4, 2),
        "skips": "stages",
        "norm": "scalar",
        "glu": False,
        "vocabulary": 7,
        "output_size": 5,
        "mixer": S4Config(d_state=6, n_ssm=1),
        "length": 32,
    },
    "U-Net": {
        "d_model": 4,
        "n_layers": 1,
        "poolings": (3, 2),
        "norm": "scalar",
        "vocabulary": 7,
        "output_size": 5,
        "mixer": S4Config(d_state=6),
        "length": 24,
    },
    "U-Net of turns": {
        "d_model": 4,
        "n_layers": 2,
        "poolings": (3, 2),
        "centre_feed_forward": True,
        "vocabulary": 7,
        "output_size": 5,
        "mixer": S4Config(d_state=6, n_ssm=2, sharing="turns"),
        "length": 24,
    },
    "layer norm, no feed-forward": {
        "d_model": 4,
        "n_layers": 2,
        "poolings": (2,),
        "feed_forward": 0,
        "input_size": 2,
        "output_size": 5,
        "mixer": S4Config(d_state=6),
    },
}

# Those with C~, as version 2 has.
TRUNCATED = ("language model", "both directions", "scalar norm", "turns", "Q", "SaShiMi", "U-Net", "U-Net of turns")


def make(name):
    torch.manual_seed(0)
    return vary(SequenceModel(**STACKS[name]) if name in STACKS else UNet(**UNETS[name]))


def inputs(model, length=24):
    draw = torch.Generator().manual_seed(1)
    config = model.config
    if config.vocabulary:
        return torch.randint(config.vocabulary, (2, length), generator=draw)
    return torch.randn(2, length, config.input_size, generator=draw)


@torch.no_grad()
def assert_same_model(model, other):
    """The same settings and outputs. Lambda went through a logarithm; outputs are about 3, measured 5e-7."""
    assert other.config == model.config
    x = inputs(model)
    torch.testing.assert_close(other(x)[0], model(x)[0], atol=1e-5, rtol=1e-5)


# Whole models


@grouped(
    "name",
    "name, version",
    [
        (name, version)
        for name in (*STACKS, *UNETS)
        for version in (2, 3, 4)
        if (version == 2 or name != "Q") and (version > 2 or name in TRUNCATED)
    ],
)
def test_a_model_comes_back_from_the_names_of_every_version(name, version):
    """What features share stays shared: the parameters are as many as the file's."""
    model = make(name)
    state = to_authors(model, version)
    converted = convert(Checkpoint(state, None), dt="exp")
    assert converted.version == version
    count = sum(weights.numel() for weights in converted.weights.values())
    assert count == sum(tensor.numel() for tensor in model.state_dict().values())
    assert_same_model(model, from_authors(state, dt="exp"))


@pytest.mark.parametrize("name", UNETS)
@torch.no_grad()
def test_pools_of_plain_linear_layers_give_the_same_outputs(name):
    """Version 4 does not normalise their weights; a row of zeros has no direction, and stays a row of zeros."""
    model = make(name)
    weight = model.levels.pool.linear.parametrizations.weight
    weight.original0[0] = 0
    state = to_authors(model, 4, plain_pools=True)
    assert not [name for name in state if "weight_" in name]
    assert not state[
        "model.d_layers.0.linear.weight"
        if name == "SaShiMi"
        else next(name for name in state if name.endswith(".linear.weight") and "d_layers" in name)
    ][0].any()
    assert_same_model(model, from_authors(state, dt="exp"))


def test_ends_have_names_with_a_number_or_without():
    model = make("SaShiMi")
    state = {
        name.replace("encoder.0.", "encoder.").replace("decoder.0.", "decoder."): tensor
        for name, tensor in to_authors(model).items()
    }
    assert "encoder.weight" in state
    assert "decoder.output_transform.weight" in state
    assert_same_model(model, from_authors(state))


def test_a_plain_stack_puts_out_what_it_is_told_to():
    model = make("no gate")
    for decoder in ("mean", "last", "sequence"):
        found = from_authors(to_authors(model), decoder=decoder)
        assert found.config.decoder == decoder
    with pytest.raises(ValueError, match="decoder: expected one of mean, last, sequence, got 'forecast'"):
        from_authors(to_authors(model), decoder="forecast")


def test_half_precision_and_memory_that_tensors_share_do_no_harm(tmp_path):
    model = make("scalar norm")
    state = {n: t.half() if t.is_floating_point() else t for n, t in to_authors(model).items()}
    flat = torch.cat([tensor.flatten() for tensor in state.values()])
    views = dict(zip(state, flat.split([t.numel() for t in state.values()]), strict=True))
    views = {n: v.view(state[n].shape).to(state[n].dtype) if state[n].ndim else state[n] for n, v in views.items()}
    found = from_authors(views)
    assert {p.dtype for p in found.parameters()} == {torch.float32}
    found.save_pretrained(tmp_path)
    torch.testing.assert_close(found.norm.weight, model.norm.weight, atol=1e-3, rtol=1e-3)


# State spaces


def kernel_of_theirs(state, prefix, version, length, dt="exp", real=torch.exp):
    """(sides, H, length): what the authors' code computes, by the definition of every part, in float64."""
    kernel = prefix + ("layer.layer.kernel." if version == 4 else "layer.kernel.kernel.")
    own = {name.removeprefix(kernel): t for name, t in state.items() if name.startswith(kernel)}
    if version == 4:
        Lambda = torch.complex(-real(own["A_real"].double()), -own["A_imag"].double())
    elif version == 3:
        Lambda = torch.complex(-real(own["inv_w_real"].double()), own["w_imag"].double())
    else:
        Lambda = torch.view_as_complex(own["w"].double())
    stored = own["inv_dt"] if version == 4 else own["log_dt"]
    steps = {"exp": torch.exp, "softplus": torch.nn.functional.softplus}[dt](stored.double().flatten())
    P, B, C = (torch.view_as_complex(own[name].double()) for name in ("P", "B", "C"))
    Q = torch.view_as_complex(own["Q"].double()) if "Q" in own else P.conj()  # A = Lambda - P Q^T
    L = 2 * (len(own["omega"]) - 1) if version == 2 else int(own["l_kernel" if version == 4 else "L"])
    found = torch.zeros(*C.shape[:2], length, dtype=torch.float64)
    for h, step in enumerate(steps):
        s = h % len(Lambda)  # features take turns
        both = [torch.cat((half, half.conj())) for half in (Lambda[s], B[0, s])]
        left, right = (torch.cat((half[:, s], half[:, s].conj()), dim=1) for half in (P, Q))
        A, one = torch.diag(both[0]) - left.T @ right, torch.eye(len(both[0]), dtype=torch.complex128)
        A_bar = torch.linalg.solve(one - step / 2 * A, one + step / 2 * A)
        B_bar = torch.linalg.solve(one - step / 2 * A, step * both[1])
        for side in range(len(C)):
            row = torch.cat((C[side, h], C[side, h].conj()))
            if L:
                row = torch.linalg.solve((one - torch.linalg.matrix_power(A_bar, L)).T, row)
            for k in range(length):
                found[side, h, k] = (row @ torch.linalg.matrix_power(A_bar, k) @ B_bar).real
    return found


def assert_same_kernels(state, model, version, dt="exp", real=torch.exp):
    for k, block in enumerate(model.blocks):
        truth = kernel_of_theirs(state, f"model.layers.{k}.", version, 12, dt, real)
        found = block.mixer.kernel(12).detach().double()
        found = found if block.mixer.bidirectional else found.unsqueeze(0)
        # In float32, of K about 1; measured 2e-7.
        torch.testing.assert_close(found, truth, atol=5e-6, rtol=0)


@pytest.mark.parametrize("version", [3, 4])
@pytest.mark.parametrize("name", ["both directions", "tokens, feed-forward", "no gate"])
def test_kernels_are_those_of_the_authors_code(name, version):
    """With the sign of the imaginary part of either version, one direction and two, ranks 1 and 2, C and C~."""
    model = make(name)
    if model.config.feed_forward:
        model = vary(SequenceModel(model.config, feed_forward=0))
    state = to_authors(model, version)
    imag = state[
        "model.layers.0.layer.layer.kernel.A_imag" if version == 4 else "model.layers.0.layer.kernel.kernel.w_imag"
    ]
    assert (imag.sign() == (-1 if version == 4 else 1)).float().mean() > 0.9  # of our half
    assert_same_kernels(state, from_authors(state, dt="exp"), version)


def test_kernels_with_q_are_those_of_the_authors_code():
    """The first form of A, Lambda - P Q^T, of version 2, with Q apart from P."""
    model = make("Q")
    layer = model.blocks[0].mixer
    assert (layer.Q - layer.P).abs().max() > 0.1
    state = to_authors(model, 2)
    assert_same_kernels(state, from_authors(state), 2)


@pytest.mark.parametrize("version", [3, 4])
def test_features_that_take_turns_with_state_spaces_share_them_still(version):
    """Feature h has the state space h mod 4."""
    model = make("turns")
    state = to_authors(model, version)
    assert state[f"model.layers.0.layer.{'layer' if version == 4 else 'kernel'}.kernel.P"].shape == (1, 4, 3, 2)
    found = from_authors(state, dt="exp")
    assert found.blocks[0].mixer.P.shape == (1, 4, 3, 2)
    assert_same_kernels(state, found, version)


def test_layers_that_share_by_different_numbers_are_unfolded():
    """One setting is that of all layers; only what repeats is repeated."""
    model = make("turns")
    shared = to_authors(model, 4)
    model = vary(SequenceModel(model.config, mixer=S4Config(d_state=6, bidirectional=True, length=12)))
    state = shared | {name: t for name, t in to_authors(model, 4).items() if name.startswith("model.layers.1.")}
    found = from_authors(state, dt="exp")
    assert found.config.mixer.n_ssm is None
    assert_same_kernels(state, found, 4)


@pytest.mark.parametrize("dt", ["exp", "softplus"])
def test_dt_is_stored_through_the_transform_that_is_said(dt):
    """The file looks the same for both."""
    model = vary(SequenceModel(**SMALL, mixer=S4Config(d_state=6, dt_transform=dt)))
    state = to_authors(model, 4)
    found = from_authors(state, dt=dt)
    assert_same_model(model, found)
    assert_same_kernels(state, found, 4, dt)


@pytest.mark.parametrize("real", ["exp", "none", "relu", "sigmoid", "softplus"])
def test_real_parts_are_stored_through_the_transform_that_is_said(real):
    model = vary(SequenceModel(**SMALL, mixer=S4Config(d_state=6)))
    state = to_authors(model, 4, real=real)
    assert_same_model(model, from_authors(state, dt="exp", real=real))
    forward = {
        "exp": torch.exp,
        "none": lambda x: x,
        "relu": lambda x: x.relu() + 1e-4,
        "sigmoid": torch.sigmoid,
        "softplus": torch.nn.functional.softplus,
    }[real]
    assert_same_kernels(state, from_authors(state, dt="exp", real=real), 4, real=forward)


@pytest.mark.parametrize("name", ["both directions", "SaShiMi"])
def test_lengths_that_differ_make_c_the_parameter(name):
    """One layer's C~ is of another length, as after a longer input: no one length is that of all."""
    model = make(name)
    layer = next(part for part in model.modules() if isinstance(part, longwave.S4))
    longer = S4Config(d_state=6, n_ssm=layer.n_ssm, bidirectional=layer.bidirectional, length=40).build(layer.d_model)
    with torch.no_grad():
        for parameter in ("log_dt", "Lambda_re", "Lambda_im", "P", "B", "D"):
            getattr(longer, parameter).copy_(getattr(layer, parameter))
        system = layer.ssm()
        truncated = longwave.ssm.truncated_output_map(*system[:2], system.C, system.dt, 40)
        longer.C_tilde.copy_(torch.view_as_real(truncated))
    blocks = [part for part in model.modules() if getattr(part, "mixer", None) is layer]
    blocks[0].mixer = longer
    found = from_authors(to_authors(model))
    assert getattr(found.config, "length", None) is None
    assert found.config.mixer.length is None
    x = inputs(model)
    # C is solved for from C~ with I - A_bar^L, whose condition is below 100 here; measured 4e-6.
    torch.testing.assert_close(found(x)[0], model(x)[0], atol=1e-4, rtol=1e-4)


# The ends of the language model


@torch.no_grad()
def test_words_have_the_probabilities_of_the_authors_softmax():
    """By their formula: of the head's logits, the i-th from the end is the cluster of tail i."""
    model = make("language model")
    state = to_authors(model)
    found, x = from_authors(state), torch.randn(5, 16)

    def logits(projection, weight, bias):
        return x @ projection @ weight.T + bias

    words = [state[f"encoder.0.emb_layers.{i}.weight"] for i in range(3)]
    head = logits(
        state["loss.out_projs.0"],
        torch.cat((words[0], state["loss.cluster_weight"])),
        torch.cat((state["loss.out_layers_biases.0"], state["loss.cluster_bias"])),
    ).log_softmax(-1)
    parts = [head[:, :5]]
    for i in (1, 2):
        tail = logits(state[f"encoder.0.emb_projs.{i}"], words[i], state[f"loss.out_layers_biases.{i}"])
        parts.append(head[:, -i].unsqueeze(1) + tail.log_softmax(-1))
    torch.testing.assert_close(found.decoder(x)[0], torch.cat(parts, dim=1), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_words_are_embedded_as_in_the_authors_code():
    state = to_authors(make("language model"))
    found = from_authors(state)
    for word, (i, row) in {0: (0, 0), 4: (0, 4), 5: (1, 0), 11: (1, 6), 12: (2, 0), 29: (2, 17)}.items():
        truth = 4 * state[f"encoder.0.emb_projs.{i}"] @ state[f"encoder.0.emb_layers.{i}.weight"][row]
        torch.testing.assert_close(found.encoder(torch.tensor([[word]]))[0, 0], truth, atol=1e-5, rtol=1e-5)


def test_the_published_language_model_has_the_settings_of_our_experiment():
    """Without its 243 million numbers: the names and shapes of the authors' model, on the meta device."""
    from longwave.experiments import EXPERIMENTS
    from longwave.models.authors.stack import take_adaptive_ends
    from longwave.models.authors.tensors import Tensors

    sizes = (19_997, 20_000, 160_000, 67_738)
    state = {"loss.out_projs.0": torch.empty(1024, 1024, device="meta")}
    state |= {"loss.cluster_weight": torch.empty(3, 1024, device="meta")}
    state |= {"loss.cluster_bias": torch.empty(3, device="meta")}
    for i, size in enumerate(sizes):
        width = 1024 // 4**i
        state[f"encoder.0.emb_layers.{i}.weight"] = torch.empty(size, width, device="meta")
        state[f"encoder.0.emb_projs.{i}"] = torch.empty(1024, width, device="meta")
        state[f"loss.out_layers_biases.{i}"] = torch.empty(size, device="meta")
    settings, weights = take_adaptive_ends(Tensors(state), 1024)
    config = EXPERIMENTS["wikitext103-shared"].model
    assert (settings["cutoffs"], settings["vocabulary"]) == (config.cutoffs, 267_735)
    assert sum(tensor.numel() for tensor in weights.values()) == 39_632_762


# What is refused


def changed(name, change, version=4):
    state = to_authors(make(name), version)
    change(state)
    return state


LAYER = "model.layers.0.layer."
KERNEL = f"{LAYER}layer.kernel."


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda s: s.update({f"{KERNEL}inv_dt": torch.zeros(16, 3)}),
            r"inv_dt: expected one dt for each of 16 features",
        ),
        (
            lambda s: s.update({f"{KERNEL}Q": s[f"{KERNEL}P"]}),
            r"kernel.Q: expected A = Lambda - P P\^\* beside A_real, got one with a Q",
        ),
        (lambda s: s.pop(f"{KERNEL}P"), "kernel.P: expected the low-rank part of an S4, got none; S4D is not imported"),
        (lambda s: s.pop(f"{KERNEL}B"), "kernel.B: expected a tensor of this name, got none"),
        (
            lambda s: s.update({f"{KERNEL}B": torch.zeros(2, 16, 3, 2)}),
            r"B: expected a tensor \(1, 16, 3, 2\), got \(2, ",
        ),
        (
            lambda s: s.update({f"{KERNEL}C": torch.zeros(3, 16, 3, 2)}),
            "C: expected one or two output maps per feature, got 3",
        ),
        (lambda s: s.update({f"{KERNEL}C": s[f"{KERNEL}C"].cfloat()}), "C: expected real numbers, got torch.complex64"),
        (lambda s: s.update({f"{KERNEL}P": torch.zeros(3, 16, 3, 2)}), "P: expected a rank of 1 or 2, got 3"),
        (lambda s: s.update({f"{KERNEL}l_kernel": torch.tensor(-1)}), "l_kernel: expected one length, or 0, got"),
        (
            lambda s: s.update({"model.pos": torch.zeros(3)}),
            "have no counterpart in a longwave SequenceModel: model.pos",
        ),
        (lambda s: s.pop("model.layers.0.norm.norm.weight"), "norm.norm.: expected a norm, with one of m"),
        (lambda s: s.pop("model.layers.0.norm.norm.bias"), "norm.norm.bias: expected a tensor of this name"),
        (
            lambda s: s.pop("decoder.0.output_transform.weight"),
            "output_transform.weight: expected a tensor of this name",
        ),
        (lambda s: s[f"{KERNEL}A_real"].fill_(math.inf), r"mixer.Lambda_re, of the file: expected finite numbers"),
        (
            lambda s: s.update({"decoder.0.output_transform.weight": torch.zeros(4, 8)}),
            r"do not fit together: decoder.linear.weight: expected \(4, 16\) in a SequenceModel .* got \(4, 8\)",
        ),
        (
            lambda s: s.update({n.replace("layers.0", "layers.2"): s.pop(n) for n in list(s) if "layers.0" in n}),
            "model.layers.0: expected tensors of this name, as there are later ones",
        ),
        (
            lambda s: s.update({n.replace("model.layers", "net"): s.pop(n) for n in list(s)}),
            "expected the names of the authors' models, model.layers.0",
        ),
        (
            lambda s: [s.pop(n) for n in list(s) if n.startswith(KERNEL)],
            r"expected an S4 layer, with layer.layer.kernel.A_real \(version 4\)",
        ),
    ],
)
def test_what_is_no_model_of_ours_is_refused_by_name(change, message):
    with pytest.raises(ValueError, match=message):
        from_authors(changed("no gate", change), dt="exp")


def test_version_1_is_refused_by_name():
    def rename(state):
        state[f"{LAYER}kernel.krylov.w"] = state.pop(f"{LAYER}kernel.kernel.inv_w_real")

    with pytest.raises(ValueError, match="expected version 2 to 4 of the authors' code, got version 1"):
        from_authors(changed("no gate", rename, version=3))


def test_modes_that_grow_are_refused():
    """Where Lambda is one complex parameter, training may leave real parts above 0, which ours cannot have."""

    def grow(state):
        state[f"{LAYER}kernel.kernel.w"][0, 0, 0] = 0.25

    with pytest.raises(ValueError, match=r"kernel.w: expected real parts <= 0, got 0.25 among them"):
        from_authors(changed("Q", grow, version=2))


def test_the_transform_of_dt_is_never_guessed():
    """The wrong one would give other outputs: without hyper-parameters, version 4 needs it said."""
    state = to_authors(make("no gate"), 4)
    with pytest.raises(ValueError, match="dt: expected exp or softplus: a file of version 4 without hyper-parameters"):
        from_authors(state)
    for stated in ("exp", "softplus"):
        config = {"model": {"layer": [{"dt_transform": stated, "real_transform": "exp"}, {"d_state": 64}]}}
        found = convert(Checkpoint(state, config)).config.mixer
        assert found.dt_transform == stated
        assert convert(Checkpoint(state, config), dt="exp").config.mixer.dt_transform == "exp"
    both = {"a": {"dt_transform": "exp"}, "b": {"dt_transform": "softplus"}}
    with pytest.raises(ValueError, match=r"dt_transform, of the file's hyper-parameters: .* got exp, softplus; say"):
        convert(Checkpoint(state, both))
    with pytest.raises(ValueError, match=r"real_transform, of the file's .* got abs; say which is right \(--real\)"):
        convert(Checkpoint(state, {"real_transform": "abs"}), dt="exp")


def test_transforms_that_a_version_does_not_know_are_refused():
    state = to_authors(make("no gate"), 3)
    with pytest.raises(ValueError, match="dt: version 3 of the authors' code knows exp alone, got softplus"):
        from_authors(state, dt="softplus")
    with pytest.raises(ValueError, match="real: version 2 of the authors' code knows exp alone, got relu"):
        from_authors(to_authors(make("scalar norm"), 2), real="relu")
    with pytest.raises(ValueError, match="dt: expected one of exp, softplus, got 'relu'"):
        from_authors(state, dt="relu")
    with pytest.raises(ValueError, match="real: expected one of exp, none, relu, sigmoid, softplus, got 'abs'"):
        from_authors(state, real="abs")
    with pytest.raises(ValueError, match="inv_w_real: expected numbers >= 0 for real none, got -"):
        from_authors(state, real="none")


def test_copies_that_are_none_are_refused():
    def differ(state):
        state["loss_val.cluster_bias"] = state["loss.cluster_bias"] + 1

    with pytest.raises(ValueError, match=r"loss_val.cluster_bias: expected a copy of loss.cluster_bias, got other"):
        from_authors(changed("language model", differ), dt="exp")

    def untied(state):
        state["loss.shared_out_projs.1"] = state["encoder.0.emb_projs.1"] + 1

    with pytest.raises(
        ValueError, match=r"loss_val.shared_out_projs.1: expected a copy|shared_out_projs.1: expected a"
    ):
        from_authors(changed("language model", untied), dt="exp")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "SaShiMi",
            lambda s: [s.pop(n) for n in list(s) if ".d_layers.1." in n],
            "as many pools in d_layers as in u_layers",
        ),
        (
            "SaShiMi",
            lambda s: [s.pop(n) for n in list(s) if ".d_layers." in n],
            "model.d_layers: expected a pool at the end",
        ),
        (
            "SaShiMi",
            lambda s: [s.pop(n) for n in list(s) if ".c_layers.3." in n],
            "model.c_layers: expected SFSF at a level",
        ),
        ("SaShiMi", lambda s: s.pop("model.d_layers.0.linear.weight_g"), "weight_g: expected a tensor of this name"),
    ],
)
def test_u_nets_that_are_none_of_ours_are_refused(name, change, message):
    with pytest.raises(ValueError, match=message):
        from_authors(changed(name, change), dt="exp")


def test_a_centre_of_which_some_layers_have_a_feed_forward_is_refused():
    def narrow(state):
        for name in list(state):
            if name.startswith("model.c_layers.3."):
                del state[name]

    with pytest.raises(ValueError, match=r"model.c_layers: expected SFSF at a level .* got SFS"):
        from_authors(changed("U-Net of turns", narrow), dt="exp")


def test_layers_in_another_order_are_refused():
    def swap(state):
        for name in list(state):
            if name.startswith("model.layers.5."):
                state[name.replace("layers.5.", "layers.6.")] = state.pop(name)
        for name in list(state):
            if name.startswith("model.layers.4."):
                state[name.replace("layers.4.", "layers.5.")] = state[name]

    with pytest.raises(ValueError, match=r"with a feed-forward \(F\) after every so many of them, got SSFSSSF"):
        from_authors(changed("language model", swap), dt="exp")
