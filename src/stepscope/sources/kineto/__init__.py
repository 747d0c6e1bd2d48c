"""Kineto: the JSON that PyTorch's profiler writes, on NVIDIA, AMD, CPU and other devices, sound or damaged."""
