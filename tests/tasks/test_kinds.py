"""What every kind of task offers: the modules that it names are there."""

import importlib

from pairwise import in_one_case

from longwave.tasks.base import TASKS, Action, Task

COMMANDS = {"predict", "generate", "stream"}


@in_one_case(kind=list(TASKS))
def test_a_kind_names_modules_that_have_an_action(kind):
    settings = TASKS[kind]
    assert settings.actions.keys() <= COMMANDS
    assert all(isinstance(settings.action(command), Action) for command in settings.actions)
    assert settings.action("of no command") is None


def test_every_report_module_has_a_report():
    tasks, modules = [Task], set()
    while tasks:
        task = tasks.pop()
        tasks += task.__subclasses__()
        modules |= {task.report_module} - {None}
    assert len(modules) >= 10
    assert all(callable(importlib.import_module(module).report) for module in modules if module.startswith("longwave."))
