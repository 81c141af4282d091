"""Pictures of results: one file a kind, drawn on scenes that a sheet puts side by side."""
