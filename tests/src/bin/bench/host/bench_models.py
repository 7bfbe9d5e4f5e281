"""Models that are exported to be measured; the peer runs the same modules in eager mode."""

import torch
import torch.nn.functional as F
from torch import nn


class Perceptron(nn.Module):
    """Three wide layers: products of a matrix and a vector."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(1024, 4096), nn.Linear(4096, 4096)])
        self.last = nn.Linear(4096, 1024)

    def forward(self, x):
        for layer in self.layers:
            x = F.gelu(layer(x))
        return self.last(x).softmax(-1)


class Block(nn.Module):
    """A layer of a transformer, normalised before attention and before its two linear layers."""

    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def forward(self, x):
        batch, tokens, size = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, size // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, size))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


def perceptron():
    """The wide perceptron, and one input."""
    torch.manual_seed(0)
    return Perceptron().eval(), (torch.randn(1, 1024),)


def transformer():
    """Six layers of 256 features and 4 heads over 128 tokens."""
    torch.manual_seed(0)
    return nn.Sequential(*(Block(256, 4) for _ in range(6))).eval(), (torch.randn(1, 128, 256),)
