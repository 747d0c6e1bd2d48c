"""What each framework issues in one step, as programs."""
