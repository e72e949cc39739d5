"""Pictures: figures of arrays and of layers, which know nothing of tasks and runs."""
