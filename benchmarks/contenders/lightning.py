"""Lightning's Trainer, with nothing that it would write or show."""

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from benchmarks.contenders import EpochEnded
from benchmarks.models import torch_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload


class Classifier(lightning.LightningModule):
    def __init__(self, workload: Workload, weights: Weights, epoch_ended: EpochEnded) -> None:
        super().__init__()
        self.workload = workload
        self.epoch_ended = epoch_ended
        self.model = torch_model.build(workload, weights)
        self.loss_fn = nn.CrossEntropyLoss()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=LEARNING_RATE, fused=True)

    # Sums of its own cost less than self.log does.

    def on_train_epoch_start(self) -> None:
        self.loss_sum = torch.zeros((), device=self.device)
        self.correct = torch.zeros((), dtype=torch.int64, device=self.device)

    def training_step(self, batch: tuple[torch.Tensor, torch.Tensor], index: int) -> torch.Tensor:
        x, y = batch
        logits = self.model(x)
        loss = self.loss_fn(logits, y)
        self.loss_sum += loss.detach()
        self.correct += (logits.argmax(1) == y).sum()
        return loss

    def on_train_epoch_end(self) -> None:
        rows = self.workload.steps * self.workload.batch_size
        self.epoch_ended(self.loss_sum.item() / self.workload.steps, self.correct.item() / rows)


def train(
    workload: Workload, data: Data, weights: Weights, epochs: int, epoch_ended: EpochEnded
) -> None:
    if workload.torch_threads:
        torch.set_num_threads(workload.torch_threads)
    dataset = TensorDataset(*torch_model.to_tensors(data))
    trainer = lightning.Trainer(
        max_epochs=epochs,
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        Classifier(workload, weights, epoch_ended),
        DataLoader(dataset, batch_size=workload.batch_size, shuffle=True),
    )
