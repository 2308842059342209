"""The models in PyTorch, where images are [B, C, H, W], and the data as its tensors."""

import numpy as np
import torch
from torch import nn

from benchmarks.workloads import Data, Weights, Workload


def to_tensors(data: Data) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs [N, D] or [N, C, H, W], and classes [N] int64."""
    x = data.x if data.x.ndim == 2 else np.ascontiguousarray(data.x.transpose(0, 3, 1, 2))
    return torch.from_numpy(x), torch.from_numpy(data.y).long()


def build(workload: Workload, weights: Weights) -> nn.Module:
    """A model from inputs [B, D] or [B, C, H, W] to logits [B, classes]."""
    return (convnet if workload.kind == "convnet" else mlp)(workload, weights)


def mlp(workload: Workload, weights: Weights) -> nn.Module:
    layers: list[nn.Module] = []
    for index in range(len(workload.hidden)):
        layers.append(linear(weights, index))
        if workload.kind == "mlp_batch_norm":
            layers.append(batch_norm(nn.BatchNorm1d, weights, index))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers, linear(weights, len(workload.hidden)))


def convnet(workload: Workload, weights: Weights) -> nn.Module:
    layers: list[nn.Module] = []
    for index in range(len(workload.hidden)):
        layers.append(convolution(weights, index))
        layers.append(batch_norm(nn.BatchNorm2d, weights, index))
        layers.append(nn.ReLU())
        layers.append(nn.MaxPool2d(2))
    output = linear(weights, 0)
    # The kernel's rows are those of flattened [H, W, C]; reordered once, they fit [C, H, W].
    features, channels = output.in_features, workload.hidden[-1]
    rows = np.arange(features).reshape(-1, channels).T.ravel()
    with torch.no_grad():
        output.weight.copy_(output.weight[:, rows].clone())
    return nn.Sequential(*layers, nn.Flatten(), nn.Dropout(workload.dropout), output)


def linear(weights: Weights, index: int) -> nn.Linear:
    kernel = weights[f"dense_{index}/kernel"]
    layer = nn.Linear(*kernel.shape)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel.T))
        layer.bias.copy_(torch.from_numpy(weights[f"dense_{index}/bias"]))
    return layer


def convolution(weights: Weights, index: int) -> nn.Conv2d:
    kernel = weights[f"conv_{index}/kernel"]  # [H, W, in, out]
    *_, channels, filters = kernel.shape
    layer = nn.Conv2d(channels, filters, 3, padding="same", bias=False)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(kernel.transpose(3, 2, 0, 1)))
    return layer


def batch_norm(layer_class: type[nn.Module], weights: Weights, index: int) -> nn.Module:
    name = f"batch_norm_{index}"
    # The momentum of PyTorch is the share of the new; Keras' is that of the old.
    layer = layer_class(len(weights[f"{name}/gamma"]), eps=1e-3, momentum=0.1)
    with torch.no_grad():
        layer.weight.copy_(torch.from_numpy(weights[f"{name}/gamma"]))
        layer.bias.copy_(torch.from_numpy(weights[f"{name}/beta"]))
        layer.running_mean.copy_(torch.from_numpy(weights[f"{name}/moving_mean"]))
        layer.running_var.copy_(torch.from_numpy(weights[f"{name}/moving_variance"]))
    return layer
