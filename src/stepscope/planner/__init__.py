"""What fits: memory of a rank by term and moment, changes that make a plan fit, and what a checkpoint costs."""
