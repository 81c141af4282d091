"""The fault matrix: real processes, real Redis, real disks, faults that we cause, invariants after each."""
