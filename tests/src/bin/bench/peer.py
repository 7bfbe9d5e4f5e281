"""The peer of `cargo xtask bench`: PyTorch on the CPU where it is installed, else numpy.

Reads requests from standard input, one a line, and answers each with one line:

    about           ok PyTorch 2.13.0
    prepare CASE    ok PyTorch      (who carries the case out)
    time REPEATS    ok 0.0123       (seconds of so many runs of the case)
    samples COUNT   ok 0.1 0.2      (so many values of its result, at even distances)

Usage: peer.py THREADS
"""

import importlib
import math
import sys
import time

import numpy as np

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = None

THREADS = int(sys.argv[1])
CASES = {}


def case(function):
    """Adds a case: calling it makes ready and gives what to time."""
    CASES[function.__name__] = function
    return function


def random(*sizes):
    """Float32 numbers, of PyTorch where it is installed."""
    array = (np.random.default_rng(0).random(sizes) - 0.5).astype(np.float32)
    return torch.from_numpy(array) if torch else array


def softmax(x):
    """numpy's softmax along the last dimension."""
    e = np.exp(x - x.max(-1, keepdims=True))
    e /= e.sum(-1, keepdims=True)
    return e


@case
def mm():
    a, b, out = random(1024, 1024), random(1024, 1024), random(1024, 1024)
    if torch:
        return lambda: torch.mm(a, b, out=out)
    return lambda: np.matmul(a, b, out=out)


def conv2d(channels_per_group):
    x, groups = random(1, 64, 56, 56), 64 // channels_per_group
    weight = random(64, channels_per_group, 3, 3)
    if torch:
        return lambda: F.conv2d(x, weight, padding=1, groups=groups)

    def run():
        padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        if groups == 64:
            return np.einsum("cyxij,cij->cyx", windows, weight[:, 0])
        columns = windows.transpose(0, 3, 4, 1, 2).reshape(64 * 9, 56 * 56)
        return weight.reshape(64, 64 * 9) @ columns

    return run


@case
def conv():
    return conv2d(64)


@case
def depthwise():
    return conv2d(1)


def attention(queries, keys):
    q, k, v = random(1, 8, queries, 64), random(1, 8, keys, 64), random(1, 8, keys, 64)
    if torch:
        return lambda: F.scaled_dot_product_attention(q, k, v)
    return lambda: softmax(q @ k.swapaxes(-1, -2) * 0.125) @ v


@case
def attention_prefill():
    return attention(512, 512)


@case
def attention_decode():
    return attention(1, 2048)


@case
def softmax_rows():
    x = random(2048, 2048)
    return (lambda: torch.softmax(x, -1)) if torch else (lambda: softmax(x))


@case
def layernorm():
    x, weight, bias = random(4096, 1024), random(1024), random(1024)
    if torch:
        return lambda: F.layer_norm(x, (1024,), weight, bias)

    def run():
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt(np.mean(centred * centred, -1, keepdims=True) + 1e-5)
        return centred / deviation * weight + bias

    return run


@case
def linear_4bit():
    """Unpack, scale, multiply: numpy in any case."""
    n, k, group = 4096, 4096, 32
    generator = np.random.default_rng(0)
    packed = generator.integers(0, 256, (n, k // 2), dtype=np.uint8)
    scales = generator.random((n, k // group, 1), dtype=np.float32)
    zeros = generator.random((n, k // group, 1), dtype=np.float32)
    x = generator.random(k, dtype=np.float32)

    def run():
        q = np.empty((n, k), np.uint8)
        q[:, 0::2] = packed & 15
        q[:, 1::2] = packed >> 4
        weights = q.reshape(n, k // group, group) * scales + zeros
        return weights.reshape(n, k) @ x

    run.by = "numpy"
    return run


@case
def tiny_llama():
    """The decoder of the fixture `tiny_llama`, with other weights."""
    size, heads, kv_heads, hidden, vocabulary, tokens = 64, 4, 2, 128, 128, 8
    head = size // heads
    embedding, norm, out = random(vocabulary, size), random(size), random(vocabulary, size)
    shapes = {"q": size, "k": kv_heads * head, "v": kv_heads * head, "o": size}
    layers = [
        {name: random(rows, size) for name, rows in shapes.items()}
        | {"gate": random(hidden, size), "up": random(hidden, size), "down": random(size, hidden)}
        | {"norm1": random(size), "norm2": random(size)}
        for _ in range(2)
    ]
    angles = np.outer(np.arange(tokens), 1.0 / 10000 ** (np.arange(head // 2) / (head // 2)))
    cos, sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)
    mask = np.triu(np.full((tokens, tokens), -np.inf, np.float32), 1)
    ids = np.array([[3, 14, 15, 92, 65, 35, 8, 97]])
    if torch:
        cos, sin, mask, ids = map(torch.from_numpy, (cos, sin, mask, ids))
        cat, repeat, silu = torch.cat, torch.repeat_interleave, F.silu

        def rms_norm(x, weight):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * weight

        def attend(q, k, v):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

        def linear(x, weight):
            return F.linear(x, weight)

    else:
        cat, repeat = np.concatenate, np.repeat

        def silu(x):
            return x / (1 + np.exp(-x))

        def rms_norm(x, weight):
            return x / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5) * weight

        def attend(q, k, v):
            return softmax(q @ k.swapaxes(-1, -2) / math.sqrt(head) + mask) @ v

        def linear(x, weight):
            return x @ weight.T

    def split(x, count):
        return x.reshape(1, tokens, count, head).swapaxes(1, 2)

    def rope(x):
        a, b = x[..., : head // 2], x[..., head // 2 :]
        return cat([a * cos - b * sin, b * cos + a * sin], -1)

    def run():
        x = embedding[ids]
        for layer in layers:
            y = rms_norm(x, layer["norm1"])
            q, k = split(linear(y, layer["q"]), heads), split(linear(y, layer["k"]), kv_heads)
            v = repeat(split(linear(y, layer["v"]), kv_heads), heads // kv_heads, 1)
            y = attend(rope(q), repeat(rope(k), heads // kv_heads, 1), v)
            x = x + linear(y.swapaxes(1, 2).reshape(1, tokens, size), layer["o"])
            y = rms_norm(x, layer["norm2"])
            gated = silu(linear(y, layer["gate"])) * linear(y, layer["up"])
            x = x + linear(gated, layer["down"])
        return linear(rms_norm(x, norm), out)

    return run


def numbered(count, dtype):
    """1/251 to 1, over and over."""
    numbers = (np.arange(count) % 251 + 1).astype(np.float32) / np.float32(251)
    return torch.from_numpy(numbers).to({"f32": torch.float32, "bf16": torch.bfloat16}[dtype])


def host_reduction(name):
    """A reduction of a matrix, into a tensor that is there already where PyTorch can do that."""
    aten = torch.ops.aten

    def prepare(dtype, rows, columns, dim):
        rows, columns, dim = int(rows), int(columns), int(dim)
        x = numbered(rows * columns, dtype).view(rows, columns)
        size = x.size(dim)
        w, shape = numbered(size, dtype), [size]
        kept = torch.empty(x.numel() // size, dtype=torch.int64 if name == "argmax" else x.dtype)
        like = torch.empty_like(x)
        return {
            "softmax": lambda: aten._softmax.out(x, dim, False, out=like),
            "layernorm": lambda: F.layer_norm(x, shape, w, w, 1e-5),
            "rms_norm": lambda: F.rms_norm(x, shape, w, 1e-5),
            "sum": lambda: torch.sum(x, dim, out=kept),
            "mean": lambda: torch.mean(x, dim, out=kept),
            "max": lambda: torch.amax(x, dim, out=kept),
            "var": lambda: torch.var(x, dim, out=kept),
            "argmax": lambda: torch.argmax(x, dim, out=kept),
        }[name]

    return prepare


def host_elementwise(name):
    """An elementwise operator, into a tensor that is there already."""
    aten = torch.ops.aten

    def prepare(dtype, count):
        count = int(count)
        x, out = numbered(count, dtype), torch.empty(count, dtype=numbered(1, dtype).dtype)
        square, to = x.view(4096, -1), out.view(4096, -1)
        bias, heads = numbered(4096, dtype), x.view(1, 16, -1, 64).transpose(1, 2)
        permuted = out.view(heads.shape)
        return {
            "gelu": lambda: aten.gelu.out(x, out=out),
            "tanh": lambda: torch.tanh(x, out=out),
            "silu": lambda: aten.silu.out(x, out=out),
            "exp": lambda: torch.exp(x, out=out),
            "log": lambda: torch.log(x, out=out),
            "sin": lambda: torch.sin(x, out=out),
            "add_relu": lambda: torch.relu_(torch.add(x, x, out=out)),
            "bias": lambda: torch.add(square, bias, out=to),
            "permute": lambda: permuted.copy_(heads),
            "transpose_add": lambda: torch.add(square.t(), square, out=to),
        }[name]

    return prepare


if torch:
    for each in ["softmax", "layernorm", "rms_norm", "sum", "mean", "max", "var", "argmax"]:
        CASES[f"host_{each}"] = host_reduction(each)
    for each in ["gelu", "tanh", "silu", "exp", "log", "sin"]:
        CASES[f"host_{each}"] = host_elementwise(each)
    for each in ["add_relu", "bias", "permute", "transpose_add"]:
        CASES[f"host_{each}"] = host_elementwise(each)


@case
def cnn():
    """The network of the fixture `cnn`, with other weights."""
    x = random(2, 3, 32, 32)
    first, depthwise = random(16, 3, 3, 3), random(16, 1, 3, 3)
    pointwise, bias = random(32, 16, 1, 1), random(32)
    mean, variance, last = random(16), random(16) + 1, random(10, 32)

    def run():
        y = F.conv2d(x, first, padding=1)
        y = F.max_pool2d(F.relu6(F.batch_norm(y, mean, variance)), 2)
        y = F.conv2d(y, depthwise, stride=2, padding=1, groups=16)
        y = F.conv2d(F.hardswish(F.batch_norm(y, mean, variance)), pointwise, bias)
        return F.linear(F.adaptive_avg_pool2d(y, 1).flatten(1), last, last[:, 0])

    return run


@case
def module(folder, name):
    """A module that is exported as well, in eager mode."""
    sys.path.insert(0, folder)
    model, inputs = getattr(importlib.import_module("bench_models"), name)()
    return lambda: model(*inputs)


def main():
    if torch:
        torch.set_num_threads(THREADS)
        torch.set_grad_enabled(False)
    about = f"PyTorch {torch.__version__}" if torch else f"numpy {np.__version__}"
    work = None
    for line in sys.stdin:
        request, _, argument = line.strip().partition(" ")
        try:
            if request == "about":
                answer = about
            elif request == "prepare":
                name, *words = argument.split()
                work = CASES[name](*words)
                answer = getattr(work, "by", "PyTorch" if torch else "numpy")
            elif request == "time":
                repeats = int(argument)
                start = time.perf_counter()
                for _ in range(repeats):
                    work()
                answer = time.perf_counter() - start
            elif request == "samples":
                result = work().flatten()
                step = -(-result.numel() // int(argument))
                answer = " ".join(str(value) for value in result[::step].tolist())
            else:
                raise ValueError("no such request")
            print("ok", answer, flush=True)
        except Exception as error:
            print("error", repr(error).replace("\n", " "), flush=True)


main()
