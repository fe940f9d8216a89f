"""Layers in Triton kernels, for CUDA devices. Without Triton, torch's operations compute on a GPU too."""
