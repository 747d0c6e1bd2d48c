"""A simulated cluster: what every layer of the machine does in a training step."""
