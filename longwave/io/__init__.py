"""Reading and writing: tables, times, audio, memory-mapped arrays, downloads. Nothing here depends on tasks."""
