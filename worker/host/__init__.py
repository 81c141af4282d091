"""What a host is and has: its GPUs, disk, limits, processes, secrets, and what runs on it use."""
