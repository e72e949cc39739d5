"""Convert the parameters of S4 layers from three versions of the authors' code.

    4   inv_dt, A_real, A_imag      Lambda = -exp(A_real) - i A_imag
    3   log_dt, inv_w_real, w_imag  Lambda = -exp(inv_w_real) + i w_imag
    2   log_dt, log_w_real, w_imag  Lambda = -exp(log_w_real) + i w_imag
    2   log_dt, w, Q                Lambda = w

A = Lambda - P P^*, but for the last, where it is Lambda - P Q^T: our Q is the conjugate of theirs. They store the other
half of each conjugate pair, of Lambda, P, B and C alike: so nothing else is conjugated, and K = 2 Re(C A_bar^k B_bar)
holds for both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from longwave.layers import S4Config
from longwave.layers.state_space import DtTransform
from longwave.models.authors.tensors import Tensors, all_alike

RealTransform = Literal["exp", "none", "relu", "sigmoid", "softplus"]
INITS = {1: "legs", 2: "legt"}  # an initialisation for each rank of P, whose values are replaced


class Transforms(NamedTuple):
    """The transforms that make dt and -Re Lambda positive; None: unknown."""

    dt: DtTransform | None = None
    real: RealTransform = "exp"


@dataclass(frozen=True)
class Version:
    """The parameter names of an S4 layer in a version of the authors' code."""

    number: int
    kernel: str  # what all names but that of D begin with
    D: str
    dt: str
    real: str
    imag: str
    sign: int  # of the imaginary part, as it is stored
    length: str

    @property
    def has_q(self) -> bool:
        """Whether A is Lambda - P Q^T, with Lambda as one complex parameter."""
        return self.real == self.imag


VERSIONS = (
    Version(4, "layer.layer.kernel.", "layer.layer.D", "inv_dt", "A_real", "A_imag", -1, "l_kernel"),
    Version(3, "layer.kernel.kernel.", "layer.D", "log_dt", "inv_w_real", "w_imag", 1, "L"),
    Version(2, "layer.kernel.kernel.", "layer.D", "log_dt", "log_w_real", "w_imag", 1, "omega"),
    Version(2, "layer.kernel.kernel.", "layer.D", "log_dt", "w", "w", 1, "omega"),
)


class System(NamedTuple):
    """The state spaces of one layer in our parameters; S of them are shared by the H features."""

    version: int
    length: int  # of which C is C~; 0: it is C itself
    dt: Tensor  # (H,) its parameter
    Lambda_re: Tensor  # (S, M)
    Lambda_im: Tensor
    P: Tensor  # (r, S, M, 2)
    B: Tensor  # (S, M, 2)
    C: Tensor  # (1 or 2, H, M, 2): forward, and backward if there is such a direction
    D: Tensor  # (H,)
    Q: Tensor | None = None  # (r, S, M, 2), if A is Lambda - P Q^*


def take_system(tensors: Tensors, prefix: str, how: Transforms) -> System:
    """The state spaces of the layer whose names begin with `prefix`."""
    version = _version(tensors, prefix, how)
    kernel = prefix + version.kernel
    C = tensors.take(f"{kernel}C", None, None, None, 2)
    sides, H, M, _ = C.shape
    if sides > 2:
        raise ValueError(f"{kernel}C: expected one or two output maps per feature, got {sides}")
    dt = tensors.take(kernel + version.dt)
    if dt.shape not in ((H,), (H, 1)):
        raise ValueError(
            f"{kernel}{version.dt}: expected one dt for each of {H} features, got {tuple(dt.shape)}; one for each "
            "state is not imported"
        )
    real, imag = _take_lambda(tensors, kernel, version, how, M)
    S = len(imag)
    if H % S:
        raise ValueError(f"{kernel}{version.imag}: expected a number of state spaces that divides {H}, got {S}")
    P = tensors.take(f"{kernel}P", None, S, M, 2)
    if len(P) not in INITS:
        raise ValueError(f"{kernel}P: expected a rank of {' or '.join(map(str, INITS))}, got {len(P)}")
    return System(
        version=version.number,
        length=_length(tensors, kernel, version),
        dt=dt.flatten(),
        Lambda_re=real,
        Lambda_im=version.sign * imag,
        P=P,
        B=tensors.take(f"{kernel}B", 1, S, M, 2).squeeze(0),
        C=C,
        D=tensors.take(prefix + version.D, 1, H).squeeze(0),
        Q=tensors.take(f"{kernel}Q", len(P), S, M, 2) * P.new_tensor([1, -1]) if version.has_q else None,
    )


def _take_lambda(tensors: Tensors, kernel: str, version: Version, how: Transforms, M: int) -> tuple[Tensor, Tensor]:
    """-Re Lambda, which is positive, and Im Lambda up to its sign, (S, M) each."""
    if version.has_q:
        w = tensors.take(f"{kernel}w", None, M, 2)
        if (w[..., 0] > 0).any():
            raise ValueError(f"{kernel}w: expected real parts <= 0, got {float(w[..., 0].max()):.3g} among them")
        return -w[..., 0], w[..., 1]
    imag = tensors.take(kernel + version.imag, None, M)
    real = tensors.take(kernel + version.real, *imag.shape)
    return _positive(kernel + version.real, real, how.real, version), imag


def _version(tensors: Tensors, prefix: str, how: Transforms) -> Version:
    """The version of a layer; a version without a counterpart is refused."""
    version = next((v for v in VERSIONS if f"{prefix}{v.kernel}{v.real}" in tensors), None)
    if version is None:
        raise ValueError(_unknown(tensors, prefix))
    kernel = prefix + version.kernel
    if f"{kernel}Q" in tensors and not version.has_q:
        raise ValueError(f"{kernel}Q: expected A = Lambda - P P^* beside {version.real}, got one with a Q")
    if f"{kernel}P" not in tensors:
        raise ValueError(f"{kernel}P: expected the low-rank part of an S4, got none; S4D is not imported")
    if how.dt is None and version.number == 4:
        raise ValueError(
            "dt: expected exp or softplus: a file of version 4 without hyper-parameters does not say which turns its "
            "inv_dt into the step size, and the wrong one gives other outputs; say which (--dt): that of the settings "
            "the model was trained with, dt_transform; exp if the authors' converter made it from an older file"
        )
    for name, value, oldest in (("dt", how.dt, 4), ("real", how.real, 3)):
        if value not in ("exp", None) and version.number < oldest:
            raise ValueError(f"{name}: version {version.number} of the authors' code knows exp alone, got {value}")
    return version


def _unknown(tensors: Tensors, prefix: str) -> str:
    if tensors.has(f"{prefix}layer.kernel.krylov."):
        return f"{prefix}: expected version 2 to 4 of the authors' code, got version 1, A = Lambda - p q^*"
    names = ", ".join(f"{v.kernel}{v.real} (version {v.number})" for v in VERSIONS)
    return f"{prefix}: expected an S4 layer, with {names}, or a feed-forward, with layer.ff.0.0.weight, got neither"


def _length(tensors: Tensors, kernel: str, version: Version) -> int:
    """The length L of which C is C~ = C (I - A_bar^L), 0 if it is C."""
    name = kernel + version.length
    if version.number == 2:  # which stored the nodes of the FFT
        nodes = tensors.take(name, None, 2)
        tensors.take(f"{kernel}z", len(nodes), 2)
        return 2 * (len(nodes) - 1)
    length = tensors.take(name)
    if length.numel() != 1 or length.is_floating_point() or int(length) < 0:
        raise ValueError(f"{name}: expected one length, or 0, got {length!r:.100}")
    return int(length)


def _positive(name: str, values: Tensor, how: RealTransform, version: Version) -> Tensor:
    """-Re Lambda from its parameter, in float64."""
    values = values.double()
    if how == "none" and (values < 0).any():
        raise ValueError(f"{name}: expected numbers >= 0 for real none, got {float(values.min()):.3g} among them")
    if how == "exp":
        return values.exp()
    if how == "relu":
        return values.relu() + (1e-4 if version.number == 4 else 0.0)  # as either version has it
    return {"none": values, "sigmoid": values.sigmoid(), "softplus": nn.functional.softplus(values)}[how]


def mixer_of(systems: Sequence[System], how: Transforms) -> S4Config:
    """The settings that all layers of a model have in common, but for the length of C~."""
    all_alike("version of S4", (s.version for s in systems))
    has_q = all_alike("form of A (with Q or without)", (s.Q is not None for s in systems))
    # As many state spaces in every layer are kept shared; as many as features, whatever their number, are not shared.
    shared = {len(s.Lambda_re) for s in systems} if any(len(s.Lambda_re) < len(s.dt) for s in systems) else set()
    n_ssm = shared.pop() if len(shared) == 1 else None
    return S4Config(
        d_state=all_alike("number of states", (2 * s.B.shape[1] for s in systems)),
        init=INITS[all_alike("rank of P", (len(s.P) for s in systems))],
        bidirectional=all_alike("number of directions", (len(s.C) for s in systems)) == 2,
        low_rank="pq" if has_q else "pp",
        n_ssm=n_ssm,
        sharing="neighbours" if n_ssm in (1, None) else "turns",  # the same for one
        dt_transform=how.dt or "exp",
    )


def mixer_weights(system: System, mixer: S4Config) -> dict[str, Tensor]:
    """The parameters of a layer by our names; C~ is the parameter if the settings have a length, its own."""
    H = len(system.dt)
    copies = (mixer.n_ssm or H) // len(system.Lambda_re)
    weights = {
        "log_dt" if mixer.dt_transform == "exp" else "softplus_inverse_dt": system.dt,
        "Lambda_re": system.Lambda_re.repeat(copies, 1),
        "Lambda_im": system.Lambda_im.repeat(copies, 1),
        "P": system.P.repeat(1, copies, 1, 1),
        "B": system.B.repeat(copies, 1, 1),
        "D": system.D,
    }
    if system.Q is not None:
        weights["Q"] = system.Q.repeat(1, copies, 1, 1)
    C = system.C if mixer.bidirectional else system.C[0]
    if mixer.length is not None:
        return weights | {"C_tilde": C}
    if system.length:
        layer = replace(mixer, length=system.length).build(H).double()
        layer.load_state_dict(weights | {"C_tilde": C})
        with torch.no_grad():
            C = torch.view_as_real(layer.ssm().C)  # type: ignore[operator]
    return weights | {"C": C}


def common_length(lengths: Iterable[int]) -> int | None:
    """The one length that all C~ are of; None if there are several, or C itself."""
    found = set(lengths)
    return (found.pop() or None) if len(found) == 1 else None
