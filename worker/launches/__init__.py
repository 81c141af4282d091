"""From an order to a supervisor: its signature is checked, the process is started, and what was left is swept up."""
