"""PyTorch, batches from a `DataLoader`."""

from torch.utils.data import DataLoader, TensorDataset

from benchmarks.contenders import EpochEnded
from benchmarks.contenders.torch_slices import device, train_on
from benchmarks.models import torch_model
from benchmarks.workloads import Data, Weights, Workload


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    dataset = TensorDataset(*torch_model.to_tensors(data))
    loader = DataLoader(dataset, batch_size=workload.batch_size, shuffle=True)

    def batches(epoch: int):
        for x, y in loader:
            yield x.to(device()), y.to(device())

    train_on(batches, workload, weights, epochs, epoch_ended)
