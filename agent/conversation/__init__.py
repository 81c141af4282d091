"""Sessions, turns and approvals, and the messages to people about them."""
