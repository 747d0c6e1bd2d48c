"""Two nodes on one machine, a real training job on them, and faults that come and go while it runs (`examples/two_nodes.py`)."""
