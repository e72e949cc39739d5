"""`longwave list`: list the named experiments."""

WIDTH = 80  # of the output, whatever that of the terminal
NAMES = 44  # columns of it up to the tasks


def command(all: bool = False) -> None:
    """Show the named experiments, one line per task.

    Example: longwave list --all

    Args:
        all: One line per experiment.
    """
    import textwrap

    from rich.console import Console

    from longwave.cli import _early
    from longwave.experiments.families import CUSTOM, FAMILIES, ORIGINAL, Family, names

    if all:
        print("\n".join(_early.experiment_names()))
        return
    added = [name for name in _early.experiment_names() if name not in names()]
    plugged_in = Family("From installed packages", tuple((name, "registered by a plug-in") for name in added))
    for family in (Family("Your data", CUSTOM), *FAMILIES, plugged_in):
        if not family.rows:
            continue
        Console().print(family.title, style="bold", highlight=False, markup=False, soft_wrap=True)
        for pattern, task in family.rows:
            first, *rest = textwrap.wrap(task, WIDTH - NAMES)
            print(f"{f'  {pattern}':{NAMES - 2}}  {first}")
            for line in rest:
                print(f"{'':{NAMES}}{line}")
        print()
    print("NAME-small is the same task for a CPU with few cores.")
    print(textwrap.fill(ORIGINAL, WIDTH))
    print("longwave show NAME prints every setting; longwave train NAME runs it.")
