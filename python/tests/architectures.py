"""Architectures that people export, small where size does not matter, with random weights.

Each function gives a model and an example of its inputs.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from etmetal.quantize import quantize

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def _settled(model: nn.Module) -> nn.Module:
    """Batch norms with statistics of their own, as after training."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean, std=0.1)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
    return model.eval()


def _conv(
    inputs: int,
    outputs: int,
    size: int,
    stride: int = 1,
    groups: int = 1,
    act: type | None = nn.ReLU,
) -> nn.Sequential:
    layers = [
        nn.Conv2d(inputs, outputs, size, stride, size // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([act()] if act else []))


class SqueezeExcite(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        squeezed = max(8, (channels // 4 + 4) // 8 * 8)
        self.down = nn.Conv2d(channels, squeezed, 1)
        self.up = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.up(F.relu(self.down(scale))))


class InvertedResidual(nn.Module):
    def __init__(
        self, inputs: int, size: int, wide: int, outputs: int, se: bool, act: type, stride: int
    ) -> None:
        super().__init__()
        layers = [_conv(inputs, wide, 1, act=act)] if wide != inputs else []
        layers.append(_conv(wide, wide, size, stride, groups=wide, act=act))
        if se:
            layers.append(SqueezeExcite(wide))
        layers.append(_conv(wide, outputs, 1, act=None))
        self.layers = nn.Sequential(*layers)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.residual else self.layers(x)


class MobileNetV3Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        relu, swish = nn.ReLU, nn.Hardswish
        table = [
            (16, 3, 16, 16, True, relu, 2),
            (16, 3, 72, 24, False, relu, 2),
            (24, 3, 88, 24, False, relu, 1),
            (24, 5, 96, 40, True, swish, 2),
            (40, 5, 240, 40, True, swish, 1),
            (40, 5, 240, 40, True, swish, 1),
            (40, 5, 120, 48, True, swish, 1),
            (48, 5, 144, 48, True, swish, 1),
            (48, 5, 288, 96, True, swish, 2),
            (96, 5, 576, 96, True, swish, 1),
            (96, 5, 576, 96, True, swish, 1),
        ]
        blocks = [InvertedResidual(*row) for row in table]
        self.features = nn.Sequential(
            _conv(3, 16, 3, 2, act=swish), *blocks, _conv(96, 576, 1, act=swish)
        )
        self.classifier = nn.Sequential(
            nn.Linear(576, 1024), nn.Hardswish(), nn.Dropout(0.2), nn.Linear(1024, 1000)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.adaptive_avg_pool2d(self.features(x), 1)
        return self.classifier(torch.flatten(x, 1))


def mobilenet_v3_small() -> Made:
    return _settled(MobileNetV3Small()), (torch.randn(1, 3, 96, 96),)


class BasicBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = _conv(inputs, outputs, 3, stride)
        self.second = _conv(outputs, outputs, 3, act=None)
        same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if same else _conv(inputs, outputs, 1, stride, act=None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.second(self.first(x)) + self.shortcut(x))


class ResNet18(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        blocks: list[nn.Module] = []
        inputs = 64
        for outputs in (64, 128, 256, 512):
            blocks += [
                BasicBlock(inputs, outputs, 1 if outputs == 64 else 2),
                BasicBlock(outputs, outputs, 1),
            ]
            inputs = outputs
        self.stem = nn.Sequential(_conv(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1))
        self.blocks = nn.Sequential(*blocks)
        self.classifier = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.blocks(self.stem(x)).mean((2, 3)))


def resnet18() -> Made:
    return _settled(ResNet18()), (torch.randn(1, 3, 64, 64),)


class ViTBlock(nn.Module):
    """Patches, a class token, positions, one encoder block, a classifier."""

    def __init__(self, width: int = 96, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.patches = nn.Conv2d(3, width, 8, 8)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.positions = nn.Parameter(torch.randn(1, 17, width))
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.positions
        batch, length, width = x.shape
        qkv = self.qkv(self.before(x)).reshape(batch, length, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, width))
        x = x + self.mlp(self.after(x))
        return self.head(x[:, 0])


def vit_block() -> Made:
    return ViTBlock().eval(), (torch.randn(2, 3, 32, 32),)


class YoloHead(nn.Module):
    """Three scales; boxes from distributions over distances, split and decoded."""

    def __init__(self, classes: int = 12, bins: int = 8) -> None:
        super().__init__()
        self.classes, self.bins = classes, bins
        channels = (16, 32, 64)
        outputs = 4 * bins + classes
        self.reduce = nn.ModuleList(_conv(c, 32, 3, act=nn.SiLU) for c in channels)
        self.predict = nn.ModuleList(nn.Conv2d(32, outputs, 1) for _ in channels)
        self.register_buffer("distances", torch.arange(bins).float())

    def forward(
        self, a: torch.Tensor, b: torch.Tensor, c: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        b = torch.cat([b, F.interpolate(c, scale_factor=2.0, mode="nearest")[:, :32]], 1)[:, 16:48]
        flat = []
        for x, reduce, predict in zip((a, b, c), self.reduce, self.predict, strict=True):
            flat.append(predict(reduce(x)).flatten(2))
        boxes, scores = torch.cat(flat, 2).split([4 * self.bins, self.classes], 1)
        batch, _, anchors = boxes.shape
        bins = boxes.view(batch, 4, self.bins, anchors).softmax(2)
        left_top, right_bottom = (bins * self.distances.view(1, 1, -1, 1)).sum(2).chunk(2, 1)
        centres = (right_bottom - left_top) / 2
        return torch.cat([centres, left_top + right_bottom], 1), scores.sigmoid()


def yolo_head() -> Made:
    shapes = ((1, 16, 16, 16), (1, 32, 8, 8), (1, 64, 4, 4))
    return _settled(YoloHead()), tuple(torch.randn(shape) for shape in shapes)


class WhisperBlock(nn.Module):
    """Two convolutions over a spectrogram, then one encoder block."""

    def __init__(self, mels: int = 80, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.first = nn.Conv1d(mels, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.register_buffer("positions", torch.randn(50, width))
        self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.value = nn.Linear(width, width), nn.Linear(width, width)
        self.key, self.out = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        x = F.gelu(self.second(F.gelu(self.first(mel)))).transpose(1, 2) + self.positions
        y = self.before(x)

        def split(t: torch.Tensor) -> torch.Tensor:
            return t.view(*t.shape[:2], self.heads, -1).transpose(1, 2)

        attended = F.scaled_dot_product_attention(
            split(self.query(y)), split(self.key(y)), split(self.value(y))
        )
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(self.after(x))


def whisper_block() -> Made:
    return WhisperBlock().eval(), (torch.randn(1, 80, 100),)


class Lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.LSTM(8, 16, num_layers=2, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        steps, (hidden, _) = self.layers(x)
        return self.head(steps), hidden


def lstm() -> Made:
    return Lstm().eval(), (torch.randn(2, 6, 8),)


class RmsNorm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x) * self.weight


class DecoderLayer(nn.Module):
    """Grouped-query attention with rotary positions over a cache, then a gated MLP."""

    def __init__(self, width: int, heads: int, shared: int, length: int) -> None:
        super().__init__()
        self.size, self.groups = width // heads, heads // shared
        self.before, self.after = RmsNorm(width), RmsNorm(width)

        def linear(inputs: int, outputs: int) -> nn.Linear:
            return nn.Linear(inputs, outputs, bias=False)

        self.query, self.out = linear(width, width), linear(width, width)
        self.key, self.value = linear(width, shared * self.size), linear(width, shared * self.size)
        self.gate, self.up = linear(width, 2 * width), linear(width, 2 * width)
        self.down = linear(2 * width, width)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, shared, length, self.size))

    def forward(
        self, x: torch.Tensor, at: torch.Tensor, turn: tuple[torch.Tensor, ...], mask: torch.Tensor
    ) -> torch.Tensor:
        y = self.before(x)

        def split(t: torch.Tensor) -> torch.Tensor:
            return t.view(*t.shape[:2], -1, self.size).transpose(1, 2)

        def turned(t: torch.Tensor) -> torch.Tensor:
            a, b = t.chunk(2, -1)
            cosine, sine = turn
            return torch.cat([a * cosine - b * sine, b * cosine + a * sine], -1)

        query, key, value = (split(f(y)) for f in (self.query, self.key, self.value))
        query, key = turned(query), turned(key)
        self.keys.index_copy_(2, at, key)
        self.values.index_copy_(2, at, value)
        keys, values = (t.repeat_interleave(self.groups, 1) for t in (self.keys, self.values))
        attended = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """As Llama: takes one token and its position, keeps keys and values."""

    def __init__(self, words: int = 96, width: int = 64, length: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.layers = nn.ModuleList(DecoderLayer(width, 4, 2, length) for _ in range(2))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, words, bias=False)
        half = width // 4 // 2
        angles = torch.outer(torch.arange(length).float(), 10000.0 ** (-torch.arange(half) / half))
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())
        self.register_buffer("places", torch.arange(length))

    def forward(self, token: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        turn = (self.cosines[at], self.sines[at])
        x = self.words(token)
        mask = torch.where(self.places <= at, 0.0, float("-inf")).to(x).view(1, 1, 1, -1)
        for layer in self.layers:
            x = layer(x, at, turn, mask)
        return self.head(self.norm(x))


def llama_decoder() -> Made:
    model = Decoder().eval()
    assert len(quantize(model, bits=4, group_size=32)) == 15
    return model, (torch.tensor([[7]]), torch.tensor([3]))


ALL = {
    f.__name__: f
    for f in (
        mobilenet_v3_small,
        resnet18,
        vit_block,
        yolo_head,
        whisper_block,
        lstm,
        llama_decoder,
    )
}
