"""What hung or broke with two threads, in some builds of the libraries below torch.

In a process with an end in sight, one for all, as torch takes seconds to import. The first line that is missing says
what broke.
"""

from dense import run_python

CASES = {
    "dense solves of large states": """
for N, init in ((160, "legs"), (256, "legt"), (512, "lagt")):
    A, B = hippo(init, N)
    A_bar, _ = bilinear(A, B, 0.01)
    assert torch.isfinite(A_bar).all()
    for length in (None, 2) if N < 512 else (2,):
        layer = longwave.S4(2, N, init=init, length=length)
        u = torch.randn(1, 3, 2)
        y, state = layer(u)                        # with a length: 3 is another one, and goes through C
        more, state = layer(u[:, :2], state)
        stepped, state = layer.step(u[:, 0], state)
        (y.sum() + more.sum() + stepped.sum() + state.abs().sum()).backward()
        assert all(torch.isfinite(p.grad).all() for p in layer.parameters())
""",
    "an LSSL of large states": """
for N in (160, 256):
    layer = LSSL(4, N, n_ssm=2)
    y, state = layer(torch.randn(1, 9, 4))
    y.square().mean().backward()
    with torch.no_grad():
        y_t, _ = layer.step(torch.randn(1, 4), state)
    assert all(p.grad.isfinite().all() for p in layer.parameters()) and y_t.isfinite().all()
""",
    # With channels last, oneDNN wrote past the memory of gradients at this size: the process broke, in most runs.
    "gradients of a ResNet": """
model = ResNet(ResNetConfig(width=4)).train()
for _ in range(4):
    model(torch.randn(27, 1024, 3))[0].square().sum().backward()
""",
}
PREAMBLE = """
import torch, longwave
from longwave.layers import LSSL
from longwave.models import ResNet, ResNetConfig
from longwave.ssm import bilinear, hippo

torch.set_num_threads(2)
torch.manual_seed(0)
"""


def test_every_case_ends_well_with_two_threads():
    code = "".join(f"\n{code}\nprint({name!r}, flush=True)\n" for name, code in CASES.items())
    result = run_python(PREAMBLE + code + "print('end')", timeout=240, threads=2)
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.splitlines() == [*CASES, "end"], result.stdout + result.stderr
