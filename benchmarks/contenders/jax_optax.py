"""Plain JAX and Optax, several steps in one device call: the practical limit."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from benchmarks.contenders import EpochEnded
from benchmarks.models import jax_model
from benchmarks.workloads import LEARNING_RATE, Data, Weights, Workload, shuffled_rows


class TrainState(NamedTuple):
    params: jax_model.Arrays
    model_state: jax_model.Arrays  # BatchNorm statistics, the key of dropout
    opt_state: optax.OptState
    loss_sum: jax.Array  # [] over the steps of the epoch
    correct: jax.Array  # [] int32, over the rows of the epoch


def train(
    workload: Workload,
    data: Data,
    weights: Weights,
    epochs: int,
    epoch_ended: EpochEnded,
    steps_per_execution: int | None = None,
) -> None:
    optimizer = optax.adam(LEARNING_RATE)

    def train_step(state: TrainState, batch: Data) -> TrainState:
        def compute_loss(params):
            logits, model_state = jax_model.apply(workload, params, state.model_state, batch.x)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, batch.y)
            return losses.mean(), (logits, model_state)

        grad_fn = jax.value_and_grad(compute_loss, has_aux=True)
        (loss, (logits, model_state)), gradients = grad_fn(state.params)
        updates, opt_state = optimizer.update(gradients, state.opt_state)
        return TrainState(
            optax.apply_updates(state.params, updates),
            model_state,
            opt_state,
            state.loss_sum + loss,
            state.correct + (logits.argmax(-1) == batch.y).sum(),
        )

    @partial(jax.jit, donate_argnums=0)
    def train_steps(state: TrainState, batches: Data) -> TrainState:
        """One step for each batch of a stack, [k, B, ...]."""

        def step(state: TrainState, batch: Data) -> tuple[TrainState, None]:
            return train_step(state, batch), None

        return jax.lax.scan(step, state, batches, unroll=workload.unroll)[0]

    single_step = jax.jit(train_step, donate_argnums=0)

    params, model_state = jax_model.initial_arrays(workload, weights)
    state = TrainState(
        params, model_state, optimizer.init(params), jnp.zeros(()), jnp.zeros((), int)
    )
    k = steps_per_execution or workload.steps_per_execution
    stacked_steps = workload.steps // k * k if k > 1 else 0
    for epoch in range(epochs):
        state = state._replace(loss_sum=jnp.zeros(()), correct=jnp.zeros((), int))
        rows = shuffled_rows(data, epoch).reshape(workload.steps, workload.batch_size)
        for step in range(0, stacked_steps, k):
            stack = rows[step : step + k]
            state = train_steps(state, Data(data.x[stack], data.y[stack]))
        for batch in rows[stacked_steps:]:
            state = single_step(state, Data(data.x[batch], data.y[batch]))
        epoch_ended(float(state.loss_sum) / workload.steps, float(state.correct) / len(data.y))
