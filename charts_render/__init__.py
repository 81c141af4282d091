"""The eyes: `ChartSpec -> PNG bytes`. Pure; same input, same bytes."""
