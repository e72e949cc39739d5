"""`longwave list`: the named experiments."""

WIDTH = 80  # of the output, whatever that of the terminal
NAMES = 41  # columns of it up to the tasks


def main(arguments: list[str]) -> None:
    """Run `longwave list`."""
    import tyro

    tyro.cli(list_experiments, prog="longwave list", args=arguments)


def list_experiments(all: bool = False) -> None:
    """Show the named experiments, a line for each task.

    Example: longwave list --all

    Args:
        all: One line for each experiment.
    """
    import textwrap

    from rich.console import Console

    from longwave.experiments import EXPERIMENTS, FAMILIES, Family

    if all:
        for name in EXPERIMENTS:
            print(name)
        return
    custom = Family("Your data", [row for family in FAMILIES.values() for row in family.custom])
    for family in (custom, *FAMILIES.values()):
        if not family.rows:
            continue
        Console().print(family.title, style="bold", highlight=False, markup=False, soft_wrap=True)
        for names, task in family.rows:
            first, *rest = textwrap.wrap(task, WIDTH - NAMES)
            print(f"{f'  {names}':{NAMES - 2}}  {first}")
            for line in rest:
                print(f"{'':{NAMES}}{line}")
        print()
    print("NAME-small is the same task for a CPU with few cores (not for NAME-original).")
    print("longwave show NAME prints every setting; longwave train NAME runs it.")
