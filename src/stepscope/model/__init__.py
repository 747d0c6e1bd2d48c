"""Words, tables and values that everything else speaks in. Imports nothing of ours."""
