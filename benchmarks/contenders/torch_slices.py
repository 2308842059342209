"""PyTorch, batches taken from tensors by their row numbers."""

from collections.abc import Iterable

import torch
from torch import nn

from benchmarks.contenders import EpochEnded
from benchmarks.models import torch_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload, shuffled_rows


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    x, y = (tensor.to(device()) for tensor in torch_model.to_tensors(data))

    def batches(epoch: int) -> Iterable[tuple[torch.Tensor, torch.Tensor]]:
        order = torch.from_numpy(shuffled_rows(data, epoch)).to(device())
        for rows in order.split(workload.batch_size):
            yield x[rows], y[rows]

    train_on(batches, workload, weights, epochs, epoch_ended)


def train_on(batches, workload: Workload, weights: Weights, epochs: int, epoch_ended: EpochEnded):
    """Train on the batches that `batches(epoch)` yields."""
    if workload.torch_threads:
        torch.set_num_threads(workload.torch_threads)
    model = torch_model.build(workload, weights).to(device())
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    for epoch in range(epochs):
        loss_sum = torch.zeros((), device=device())
        correct = torch.zeros((), dtype=torch.int64, device=device())
        for x, y in batches(epoch):
            logits = model(x)
            loss = loss_fn(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
            correct += (logits.argmax(1) == y).sum()
        rows = workload.steps * workload.batch_size
        epoch_ended(loss_sum.item() / workload.steps, correct.item() / rows)


def device() -> str:
    return "cuda" if torch.cuda.is_available() else "cpu"
