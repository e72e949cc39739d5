"""`longwave doctor`: show this installation and check that it computes correct results."""


def command(gpu: bool = False) -> int:
    """Show versions, CPU and kernel backends, and check each backend against the definitions.

    Exit code 1 if an available backend gives wrong results or fails, or if there is no backend to use.

    Example: longwave doctor

    Args:
        gpu: Check the GPUs instead: every op and its gradients against the CPU, a captured graph, times. The output is
            one block of text for a bug report. It takes a minute or two.
    """
    return _gpus() if gpu else _backends()


def _backends() -> int:
    """Check each backend against the definitions."""
    from longwave.bench.check import BOUND, examine
    from longwave.core.terminal import print_notes
    from longwave.core.text_table import TextTable

    health = examine()
    print_notes([*(f"{name:9} {value}" for name, value in health.installation.items()), ""])
    columns, rows, notes = ("backend", "op", "error", "bound", "time", "verdict"), [], []
    for backend in health.backends:
        if backend.unavailable:
            rows.append([backend.name, *"-" * 4, "not available"])
            notes.append(f"{backend.name} is not available: {backend.unavailable}")
        elif backend.detail:
            notes.append(f"{backend.name}: {backend.detail}")
        for trial in backend.trials:
            error = "failed" if trial.error is None else f"{trial.error:.1e}"
            verdict = "good" if trial.is_good else "broken"
            rows.append([backend.name, trial.op, error, f"{BOUND:.0e}", f"{trial.seconds * 1e3:.1f} ms", verdict])
            if trial.reason:
                notes.append(f"{backend.name} {trial.op}: {trial.reason}")
    colours = {"good": "green", "broken": "red", "not available": "yellow"}
    TextTable("Kernel backends", columns, rows, text=("backend", "op", "verdict"), colours=colours).print()
    choice = [f"{kind.upper()} tensors use: {name}" for kind, name in health.active.items()]
    print_notes([*notes, *([health.problem] if health.problem else choice)])
    return 0 if health.is_good else 1


def _gpus() -> int:
    """Check every op on each GPU against the reference on the CPU, and time it; plain text to paste into an issue."""
    from longwave.bench.check import installation
    from longwave.bench.gpu import Sizes, check_gpus, describe, find_gpus, time_gpu
    from longwave.core.terminal import say

    devices = find_gpus()
    facts = {**installation(), **describe(devices)}
    lines = ["longwave doctor --gpu", *(f"{name:9} {value}" for name, value in facts.items()), ""]
    is_good = True
    lines.append(f"{'device':8} {'checked':24} {'dtype':8} {'error':>8} {'bound':>8}")
    for trial in check_gpus(devices, say):
        is_good &= trial.is_good
        error = "failed" if trial.error is None else f"{trial.error:.1e}"
        verdict = "" if trial.is_good else "  <- broken"
        lines.append(f"{trial.device:8} {trial.what:24} {trial.dtype:8} {error:>8} {trial.bound:>8.0e}{verdict}")
        lines += [f"         {trial.reason}"] if trial.reason else []
    for L in (1024, 4096, 16384):
        say(f"times at length {L:,}")
        sizes = Sizes(H=256, N=64, L=L, batch=16)
        times = "; ".join(f"{name} {1e3 * seconds:.2f}" for name, seconds in time_gpu(devices[0], sizes).items())
        lines.append(f"ms at H 256, N 64, batch 16, L {L:,}, forward and backward: {times}")
    lines.append("all checks passed" if is_good else "a check failed: please report it with the full output")
    print("\n".join(lines))
    return 0 if is_good else 1
