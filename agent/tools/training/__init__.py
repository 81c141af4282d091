"""Tools that start runs or change what runs: people are asked first."""
