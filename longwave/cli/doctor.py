"""`longwave doctor`: show this installation and check that it computes correct results."""


def command() -> int:
    """Show versions, CPU and kernel backends, and check each backend against the definitions.

    Exit code 1 if an available backend gives wrong results or fails, or if there is no backend to use.

    Example: longwave doctor
    """
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
