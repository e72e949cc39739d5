"""The ops of table.py as torch knows them: torch.ops.longwave.*, each with its backward pass and its fake for graphs.

Each op and its fake check what they are given: where one tensor is on the meta device, torch takes the fake, which
returns uninitialised memory.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

from longwave.ops.backend import function
from longwave.ops.signature import Signature
from longwave.ops.table import OPS, Op

LIBRARY = torch.library.Library("longwave", "FRAGMENT")  # the ops live as long as it does


def _register(op: Op) -> None:
    """The op and its backward pass, which has no gradient of its own."""
    returns = ", ".join(["Tensor"] * len(op.results))
    returns = returns if len(op.results) == 1 else f"({returns})"
    forward = _define(op.name, op.forward, returns, partial(_run, op), partial(_fake, op))
    run, fake = partial(_run_backward, op), partial(_fake_backward, op)
    backward = _define(f"{op.name}_backward", op.backward, "Tensor[]", run, fake)
    gradients = partial(_gradients, op, forward, backward)
    torch.library.register_autograd(f"longwave::{op.name}", gradients, setup_context=partial(_save, op), lib=LIBRARY)
    torch.library.register_autograd(f"longwave::{op.name}_backward", partial(_refuse_gradients, op), lib=LIBRARY)


def _define(
    name: str, signature: Signature, returns: str, run: Callable[..., Any], fake: Callable[..., Any]
) -> OpOverload:
    """An operator of torch, which leaves out trailing arguments that equal their defaults: they are added again."""
    LIBRARY.define(f"{name}({signature.schema}) -> {returns}", tags=(torch.Tag.pt2_compliant_tag,))
    op: OpOverload = getattr(torch.ops.longwave, name).default
    defaults = [argument.default_value for argument in op._schema.arguments]
    LIBRARY.impl(name, lambda *given: run(*given, *defaults[len(given) :]), "CompositeExplicitAutograd")
    torch.library.register_fake(f"longwave::{name}", lambda *given: fake(*given, *defaults[len(given) :]), lib=LIBRARY)
    return op


def _run(op: Op, *given: Any) -> Tensor | tuple[Tensor, ...]:
    sizes, lead = op.forward.check(*given), given[op.forward.lead]
    if 0 in sizes.values():  # empty inputs may give empty results, which no backend has to compute
        empty = op.empty_results(sizes, lead)
        if not any(result.numel() for result in empty):
            return _one_or_all(empty)
    found = function(op.name, lead)(*_resolved(given))
    return found.contiguous() if isinstance(found, Tensor) else tuple([result.contiguous() for result in found])


def _fake(op: Op, *given: Any) -> Tensor | tuple[Tensor, ...]:
    return _one_or_all(op.empty_results(op.forward.check(*given), given[op.forward.lead]))


def _run_backward(op: Op, *given: Any) -> list[Tensor]:
    if given[0].numel() == 0:
        return [gradient.zero_() for gradient in _fake_backward(op, *given)]
    op.backward.check(*given)
    found = function(f"{op.name}_backward", given[0])(*_resolved(given))
    return [gradient.contiguous() for gradient in ([found] if isinstance(found, Tensor) else found)]


def _fake_backward(op: Op, *given: Any) -> list[Tensor]:
    return op.empty_gradients(op.backward.check(*given), dict(zip(op.backward.names, given, strict=True)))


def _one_or_all(results: Sequence[Tensor]) -> Tensor | tuple[Tensor, ...]:
    return results[0] if len(results) == 1 else tuple(results)


def _resolved(given: Sequence[Any]) -> list[Any]:
    """Resolve negative bits, which torch does not do before an op in a compiled graph."""
    return [value.resolve_neg() if isinstance(value, Tensor) and value.is_neg() else value for value in given]


def _save(op: Op, ctx: Any, inputs: Sequence[Any], output: Any) -> None:
    results = (output,) if len(op.results) == 1 else output
    if results[1:]:
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*results[1:])
    values = (*inputs, *results)
    ctx.save_for_backward(*[values[i] for i in op.kept_at])
    ctx.options = inputs[len(op.tensors) :]


def _gradients(
    op: Op, forward: OpOverload, backward: OpOverload, ctx: Any, grad: Tensor | None, *_: None
) -> tuple[Tensor | None, ...]:
    """Gradients of all arguments of an op."""
    names = op.forward.names
    if grad is None:
        return (None,) * len(names)
    given = dict(zip(op.kept, ctx.saved_tensors, strict=True))
    given |= zip(names[len(op.tensors) :], ctx.options, strict=True)
    given["grad"] = grad
    if given.get("keep") is False:  # the op was called where no gradient was expected
        *_, given["kept"] = forward(*[given[name] for name in names[:-1]], True)
    for name, flag in (op.flags or {}).items():
        is_given = f"{name}?" in op.tensors and given[name] is not None
        given[flag] = is_given or ctx.needs_input_grad[names.index(name)]
    # Without a graph of the gradients themselves, past the kernel of torch that would build it.
    with nullcontext() if torch.is_grad_enabled() else torch._C._AutoDispatchBelowAutograd():
        found = backward(*[given[name] for name in op.backward.names])
    gradients = dict(zip(op.wanted(given), found, strict=True))
    for name, follow in op.follows.items():
        if ctx.needs_input_grad[names.index(name)]:
            gradients[name] = follow(grad)
    return tuple([gradients.get(name) for name in names])


def _refuse_gradients(op: Op, *_: Any) -> None:
    raise RuntimeError(f"longwave::{op.name}_backward is not differentiable: second derivatives are not supported")


for _op in OPS.values():
    _register(_op)
