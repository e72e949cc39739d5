"""One S4 system seen three ways: as a differential equation, as a recurrence, and as a convolution.

Run with `python examples/three_views.py`; it prints how well the views agree and writes a picture of the kernels.
"""

import math
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from longwave import S4
from longwave.pictures.kernels import draw_layer
from longwave.ssm import bilinear, hippo, power_kernel

PICTURE = Path("demo/kernels.png")


def continuous(
    A: torch.Tensor, B: torch.Tensor, C: torch.Tensor, frequency: float, times: torch.Tensor
) -> torch.Tensor:
    """y(t) for u(t) = 1 - cos(w t), exactly: u joins the state as a constant and an oscillator; then exp(t A)."""
    N = len(B)
    joint = torch.zeros(N + 3, N + 3, dtype=A.dtype)
    joint[:N, :N], joint[:N, N], joint[:N, N + 1] = A, B, -B
    joint[N + 1, N + 2], joint[N + 2, N + 1] = -frequency, frequency  # (cos, sin)' = w (-sin, cos)
    start = torch.zeros(N + 3, dtype=A.dtype)
    start[N], start[N + 1] = 1, 1
    one_step = torch.linalg.matrix_exp(joint * (times[1] - times[0]))
    y, x = [], start
    for _ in times:
        y.append(C @ x[:N])
        x = one_step @ x
    return torch.stack(y)


def main() -> None:
    """Compare the views, and draw."""
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    console = Console()

    # The layer's own two views, for a random input, in float64 and float32.
    agree = Table(
        "what is compared", "float64", "float32", title="The same layer, seen differently", title_justify="left"
    )
    rows: dict[str, list[str]] = {}
    for dtype in (torch.float64, torch.float32):
        layer = S4(16, 64).to(dtype).requires_grad_(False)
        u = torch.randn(2, 1000, 16).to(dtype)
        whole, state = layer(u)
        x, steps = layer.initial_state(2), []
        for u_t in u.unbind(1):
            y_t, x = layer.step(u_t, x)
            steps.append(y_t)
        carried, chunks = None, []
        for chunk in u.split([1, 399, 600], dim=1):
            y, carried = layer(chunk, carried)
            chunks.append(y)
        for name, got in {"recurrence": torch.stack(steps, 1), "three chunks": torch.cat(chunks, 1)}.items():
            rows.setdefault(f"convolution and {name}", []).append(
                f"{(got - whole).abs().max() / whole.abs().max():.1e}"
            )
        rows.setdefault("final state of both", []).append(f"{(x - state).abs().max() / state.abs().max():.1e}")
    for name, errors in rows.items():
        agree.add_row(name, *errors)
    console.print(agree)

    # The differential equation: the discrete views approach it at second order in dt.
    N, frequency = 16, 2 * math.pi
    A, B = hippo("legs", N)
    C = torch.randn(N)
    limit = Table("dt", "error", "falls by", title="\nContinuous and discrete", title_justify="left")
    before = None
    for dt in (0.02, 0.01, 0.005, 0.0025):
        # The bilinear rule takes the mean of two neighbouring inputs: u_k stands for the middle of its step.
        times = torch.arange(0, 2, dt)
        u = 1 - torch.cos(frequency * (times - dt / 2))
        K = power_kernel(*bilinear(A, B, dt), C, len(times))
        y = torch.stack([(K[: k + 1].flip(0) * u[: k + 1]).sum() for k in range(len(times))])
        truth = continuous(A, B, C, frequency, times)
        error = float((y[1:] - truth[1:]).abs().max() / truth.abs().max())
        limit.add_row(f"{dt}", f"{error:.1e}", "" if before is None else f"{before / error:.1f}")
        before = error
    console.print(limit)

    torch.set_default_dtype(torch.float32)
    draw_layer(S4(64, 64), 1024, PICTURE)
    console.print(f"\nthe kernels of a fresh layer: {PICTURE.resolve()}\n", soft_wrap=True)


if __name__ == "__main__":
    main()
