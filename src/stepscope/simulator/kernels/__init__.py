"""L4: the kernels of a unit, their work, and how long they take."""
