"""`longwave list`: the named experiments."""


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
    from rich.table import Table

    from longwave.cli._table import print_table
    from longwave.experiments import EXPERIMENTS, FAMILIES, Family

    if all:
        for name in EXPERIMENTS:
            print(name)
        return
    custom = Family("Your data", [row for family in FAMILIES.values() for row in family.custom])
    for family in (*FAMILIES.values(), custom):
        if not family.rows:
            continue
        table = Table(title=family.title, title_justify="left")
        table.add_column("experiments", min_width=35)
        table.add_column("task", min_width=38)
        for row in family.rows:
            table.add_row(*row)
        print_table(table)
    print("NAME-small is the same task on a CPU with few cores (not of those that end in -original).")
    print("longwave show NAME prints every setting; longwave train NAME runs it.")
