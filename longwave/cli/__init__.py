"""The command line: one file per command. Nothing here imports torch before a command runs."""
