"""From metrics and usage to charts, comparisons and files."""
