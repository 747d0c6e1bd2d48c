"""From simulated times to the spans that a profiler would have recorded."""
