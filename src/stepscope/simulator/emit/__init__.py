"""What the real tools would have left of a simulated job, one file per format."""
