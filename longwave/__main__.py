"""`python -m longwave`: the same as the program `longwave`."""

from longwave.cli.main import main

main()
