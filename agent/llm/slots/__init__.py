"""Readers of what a request names: runs, columns, settings, parts of a run, lines of a log. Text in, values out."""
