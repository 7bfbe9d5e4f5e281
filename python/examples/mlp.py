"""A small classifier: two linear layers."""

import torch
from torch import nn


def model() -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """The model and an example of its inputs."""
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.Softmax(-1))
    return layers.eval(), (torch.randn(2, 8),)
