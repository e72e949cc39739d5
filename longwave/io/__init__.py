"""What is on disk: tables, times, audio, arrays mapped into memory, downloads. Nothing here knows of tasks."""
