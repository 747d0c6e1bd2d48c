"""Inside a torch job: where did each step go, on this rank, all the time and at next to no cost?

Hooks (`hooks/`) note times into the `journal`; at the end of every step it goes to a memory-mapped `segment`, which survives
a killed process. A thread (`watch`) samples the host once a second and writes what a stalled job stands in. Torch is only
imported where the job has imported it: nothing here is loaded before.
"""
