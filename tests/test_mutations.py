"""Break the code of a project, and its own tests say so.

Each mutation is a fault that has been seen in code like this, in the official guides or in our
own. All of them take long: `python -m pytest -m mutations`; a few run always.
"""

import os
import subprocess
import sys
from typing import NamedTuple

import pytest

STEPS, TRAIN = "src/my_project/steps.py", "src/my_project/train.py"
DATA, LOSSES = "src/my_project/data.py", "src/my_project/losses.py"
OPTIMIZER, STOPPING = "src/my_project/optimizer.py", "src/my_project/early_stopping.py"
OPTAX, DEBUGGING = "src/my_project/optax_optimizer.py", "src/my_project/debugging.py"
MODEL, CHECKPOINT = "src/my_project/model.py", "src/my_project/checkpoint.py"


class Mutation(NamedTuple):
    """A text that stands once in a file, and what takes its place."""

    file: str
    old: str
    new: str
    training_loops: tuple[str, ...] = ("fit", "scratch")
    always: bool = False  # whether to run it without being asked, in one of the loops


FIT, SCRATCH = ("fit",), ("scratch",)
MUTATIONS = {
    # The loss
    "the penalties are dropped": Mutation(STEPS, ", *penalties]", "]", always=True),
    "the penalties count twice": Mutation(STEPS, ", *penalties]", ", *penalties, *penalties]"),
    "a penalty counts, the rest does not": Mutation(STEPS, ", *penalties]", ", *penalties[:1]]"),
    "the weights of the rows are dropped": Mutation(
        STEPS, "(y, y_pred, batch.weight)", "(y, y_pred)"
    ),
    "a weighted loss divides by the rows": Mutation(
        LOSSES, '"mean_with_sample_weight"', '"sum_over_batch_size"'
    ),
    "the loss is not scaled": Mutation(
        STEPS, "optimizer.scale_loss(loss), updates", "loss, updates"
    ),
    "the scale is baked in": Mutation(
        STEPS,
        "zip(optimizer.variables, state.optimizer_variables, strict=True)",
        "[]",
    ),
    "labels are not smoothed": Mutation(
        LOSSES, "label_smoothing=self.label_smoothing", "label_smoothing=0.0"
    ),
    "predictions lose their mask": Mutation(
        STEPS, "loss(y, y_pred, batch.weight)", "loss(y, y_pred + 0, batch.weight)"
    ),
    # The forward pass
    "training=True is forgotten": Mutation(
        STEPS,
        "training=True,\n        )\n        # Small",
        "training=False,\n        )\n        # Small",
    ),
    "training is not passed on": Mutation(
        STEPS, "if takes_training(model) else {}", "if not takes_training(model) else {}"
    ),
    "evaluation trains": Mutation(
        STEPS, "metrics=metrics, training=False", "metrics=metrics, training=True"
    ),
    "a stateful call in the step": Mutation(
        STEPS,
        "    y_pred, non_trainable_variables, penalties = model.stateless_call(",
        "    model(batch.x, training=training)\n"
        "    y_pred, non_trainable_variables, penalties = model.stateless_call(",
    ),
    "a model that ignores training is accepted": Mutation(
        STEPS, "    if not takes_training(model) and any(", "    if False and any("
    ),
    # What a step returns
    "the weights are not returned": Mutation(
        STEPS,
        "    return TrainState(\n        trainable_variables,",
        "    return TrainState(\n        state.trainable_variables,",
    ),
    "statistics and seeds are not returned": Mutation(
        STEPS,
        "    non_trainable_variables, metrics_variables = updates\n",
        "    _, metrics_variables = updates\n"
        "    non_trainable_variables = state.non_trainable_variables\n",
        always=True,
    ),
    "the optimizer's variables are not returned": Mutation(
        STEPS,
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(",
        "    optimizer_variables = state.optimizer_variables\n"
        "    trainable_variables, _ = optimizer.stateless_apply(",
    ),
    "Variables in the state": Mutation(
        STEPS,
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(",
        "    non_trainable_variables = list(model.non_trainable_variables)\n"
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(",
    ),
    "a stateful update of the optimizer": Mutation(
        STEPS,
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(",
        "    optimizer.apply(gradients)\n"
        "    trainable_variables, optimizer_variables = optimizer.stateless_apply(",
    ),
    "evaluation carries statistics on": Mutation(
        STEPS,
        "    return state._replace(metrics_variables=metrics_variables)\n",
        "    return state._replace(\n"
        "        non_trainable_variables=[value + 1 for value in state.non_trainable_variables],\n"
        "        metrics_variables=metrics_variables,\n    )\n",
    ),
    # Metrics
    "the mean of batches, not of rows": Mutation(
        STEPS,
        "variables, loss, sample_weight=batch.weight.sum()",
        "variables, loss",
    ),
    "metrics ignore the weights": Mutation(STEPS, "y_pred, sample_weight=batch.weight", "y_pred"),
    "a stateful update of a metric": Mutation(
        STEPS,
        "    updated: list[jax.Array] = []\n",
        "    updated: list[jax.Array] = []\n    metrics[0].update_state(loss)\n",
    ),
    "metrics are built too late": Mutation(
        STEPS, "    for metric in metrics[1:]:", "    for metric in []:"
    ),
    # Several steps in one call
    "every step has the same batch": Mutation(
        STEPS,
        "lambda state, batch: (step(state, batch), None)",
        "lambda s, _: (step(s, first), None)",
    ),
    "a single step is a loop": Mutation(STEPS, "if len(batches.weight) == 1:", "if False:"),
    "convolutions are in a loop": Mutation(
        STEPS, '"conv_general_dilated" in', 'False and "conv_general_dilated" in'
    ),
    "the batches that fill no stack are dropped": Mutation(
        DATA, "itertools.chain(stacks, batches[stacked:])", "stacks"
    ),
    "the rows that fill a batch up count": Mutation(
        DATA, "    batch.weight[len(rows) :] = 0\n", "", always=True
    ),
    "a short last batch in evaluation": Mutation(
        DATA, "np.resize(rows, min(batch_size, len(split.rows)))", "rows"
    ),
    # The optimizer
    "the learning rate is baked in": Mutation(
        OPTIMIZER, "rate, decay = schedule,", "rate, decay = float(schedule(0)),", always=True
    ),
    "the schedule counts batches": Mutation(
        OPTIMIZER, "self.schedule(step // self.batches)", "self.schedule(step)"
    ),
    "no weight decay": Mutation(OPTIMIZER, "config.weight_decay or None", "None"),
    "no clipping": Mutation(OPTIMIZER, "config.global_clipnorm or None", "None"),
    "no accumulation": Mutation(OPTIMIZER, "if config.gradient_accumulation_steps > 1", "if False"),
    "no average": Mutation(OPTIMIZER, "config.ema_momentum > 0", "False"),
    "no loss scaling": Mutation(OPTIMIZER, 'if config.dtype == "float16"', "if False"),
    "no momentum": Mutation(OPTIMIZER, "SGD(rate, config.momentum, ", "SGD(rate, "),
    "no warm-up": Mutation(OPTIMIZER, "warmup_steps=config.warmup_steps,", "warmup_steps=0,"),
    "Optax sees a shared buffer": Mutation(OPTAX, "jnp.copy(to_numbers(leaf))", "to_numbers(leaf)"),
    "Optax forgets its state": Mutation(
        OPTAX, "            variable.assign(to_numbers(leaf))\n", "            pass\n"
    ),
    # The driver
    "metrics are not reset": Mutation(
        TRAIN,
        "            state = state._replace(metrics_variables=steps.initial_metrics(metrics))\n",
        "",
        SCRATCH,
    ),
    "validation goes on from the training metrics": Mutation(
        TRAIN,
        "                        steps.initial_metrics(metrics),\n",
        "                        [value + 1 for value in steps.initial_metrics(metrics)],\n",
        SCRATCH,
    ),
    "metrics are never reset": Mutation(
        TRAIN,
        "    def call(self, inputs: Any) -> Any:",
        "    def reset_metrics(self) -> None:\n        pass\n\n"
        "    def call(self, inputs: Any) -> Any:",
        FIT,
        always=True,
    ),
    "the average is not evaluated": Mutation(
        TRAIN, 'getattr(optimizer, "inner_optimizer", optimizer).use_ema', "False", FIT
    ),
    "the average is neither evaluated nor saved": Mutation(
        TRAIN,
        "        optimizer.finalize_variable_values(model.trainable_variables)\n",
        "        pass\n",
        SCRATCH,
    ),
    "the weights are not written back": Mutation(
        TRAIN, "        variable.assign(value)\n", "        variable.assign(variable)\n", SCRATCH
    ),
    "the optimizer is not written back": Mutation(
        TRAIN,
        "        ):\n            variable.assign(value)\n",
        "        ):\n            if not any(variable is v for v in optimizer.variables):\n"
        "                variable.assign(value)\n",
        SCRATCH,
    ),
    "the statistics are not written back": Mutation(
        TRAIN,
        "        ):\n            variable.assign(value)\n",
        "        ):\n            if not any(variable is v for v in model.non_trainable_weights):\n"
        "                variable.assign(value)\n",
        SCRATCH,
    ),
    "the model trained is another than the one saved": Mutation(
        TRAIN,
        "    trainer = Trainer(model, loss_fn, metrics, optimizer, config.unroll)",
        "    copy = keras.models.clone_model(model)\n"
        "    trainer = Trainer(copy, loss_fn, metrics, optimizer, config.unroll)",
        FIT,
    ),
    "no donation": Mutation(
        TRAIN, "jax.jit(train_steps, donate_argnums=0)", "jax.jit(train_steps)", SCRATCH
    ),
    "donation without a copy": Mutation(
        TRAIN,
        "[jnp.copy(variable.value) for variable in model.trainable_variables]",
        "[variable.value for variable in model.trainable_variables]",
        SCRATCH,
        always=True,
    ),
    "a trace for each batch": Mutation(
        TRAIN,
        "                state, results_on_device = train_steps(state, batches)\n",
        "                jax.clear_caches()\n"
        "                state, results_on_device = train_steps(state, batches)\n",
        SCRATCH,
    ),
    "a trace for each epoch": Mutation(
        TRAIN,
        "        self.report.epoch(epoch,",
        "        self.model.make_train_function(force=True)\n        self.report.epoch(epoch,",
        FIT,
    ),
    "fit has each epoch in the same order": Mutation(TRAIN, "config, epoch)", "config, 0)", FIT),
    "each epoch has the same order": Mutation(
        TRAIN, "config, epoch, first_step)", "config, 0, first_step)", SCRATCH
    ),
    "the order ignores the seed": Mutation(
        DATA, "default_rng((config.seed, epoch))", "default_rng((0, epoch))"
    ),
    "patience has no end": Mutation(STOPPING, "0 < config.patience <= memory.wait", "False"),
    "the run goes on after its end": Mutation(
        TRAIN, "                break\n", "                pass\n", SCRATCH
    ),
    "fit goes on after its end": Mutation(
        TRAIN,
        "logs or {}))\n            self.model.stop_training = True\n",
        "logs or {}))\n",
        FIT,
    ),
    "fit shuffles what is in order": Mutation(
        TRAIN,
        "training_batches(dataset.train, config, first_epoch",
        "training_batches(dataset.train, Config(**vars(config) | {'seed': 9}), first_epoch",
        FIT,
    ),
    "NaNs are not looked for": Mutation(
        DEBUGGING, "        if has_nan(new_state):", "        if False:"
    ),
    "the rate of the next update is reported": Mutation(
        "src/my_project/reporting.py", "max(updates - 1, 0)", "updates"
    ),
    "a model is trained that cannot be saved": Mutation(
        TRAIN, "    model_file.check_model(model)\n", ""
    ),
    # What a run goes on from
    "an epoch is begun anew": Mutation(
        DATA, "config.batch_size)[first_step:]", "config.batch_size)"
    ),
    "the metrics of half an epoch are lost": Mutation(
        TRAIN, "            if not first_step:\n", "            if True:\n", SCRATCH
    ),
    "fit loses the metrics of half an epoch": Mutation(
        TRAIN, "                variable.assign(value)\n", "                pass\n", FIT
    ),
    "patience begins anew": Mutation(
        CHECKPOINT, "EarlyStopping(best, wait))", "EarlyStopping(best, 0))"
    ),
    "the seeds are not restored": Mutation(
        CHECKPOINT,
        "            variable.assign(arrays[name])\n",
        "            if 'seed' not in name:\n                variable.assign(arrays[name])\n",
    ),
    "damage is not looked for": Mutation(
        CHECKPOINT, "        if is_whole(checkpoint):", "        if True:"
    ),
    "the best checkpoint is not kept": Mutation(CHECKPOINT, " or step == self.best ", " "),
    "the best model is not the average": Mutation(
        CHECKPOINT,
        "            self.optimizer.finalize_variable_values(self.model.trainable_variables)\n",
        "",
    ),
    "a signal is not obeyed": Mutation(
        CHECKPOINT, "        if self.interruption.number is None:", "        if True:"
    ),
    "what is saved at a signal is not waited for": Mutation(
        CHECKPOINT, "            return\n        self.wait()\n", "            return\n"
    ),
    "rows are written twice": Mutation(
        "src/my_project/reporting.py", "[: epochs + 1 if epochs else 0]", ""
    ),
    "a changed seed is accepted": Mutation("src/my_project/config.py", '    "seed",\n', ""),
    "another process is let in": Mutation(
        "src/my_project/run_directory.py", "filelock.FileLock(", "open("
    ),
    # The data and the model
    "classes have no weight": Mutation(DATA, "    if config.class_weight:", "    if False:"),
    "all rows are overfitted": Mutation(DATA, "    if config.overfit:", "    if False:"),
    "a row is trained on twice": Mutation(
        DATA, ".permutation(split.rows)", ".choice(split.rows, len(split.rows))"
    ),
    "float16 is float32": Mutation(MODEL, '"mixed_float16"', '"float32"'),
}
CASES = [
    pytest.param(
        name,
        training_loop,
        id=f"{name} ({training_loop})",
        marks=()
        if mutation.always and training_loop == mutation.training_loops[-1]
        else pytest.mark.mutations,
    )
    for name, mutation in MUTATIONS.items()
    for training_loop in mutation.training_loops
]


@pytest.mark.parametrize(("name", "training_loop"), CASES)
def test_the_tests_of_a_project_notice(render, tmp_path, name, training_loop):
    mutation = MUTATIONS[name]
    project = render(tmp_path / "my-project", training_loop=training_loop)
    path = project / mutation.file
    text = path.read_text()
    assert text.count(mutation.old) == 1
    path.write_text(text.replace(mutation.old, mutation.new))
    # The order in which most are found soonest; no cache, as a mutation may not change the name.
    tests = ["test_optimizer", "test_early_stopping", "test_steps", "test_train", "test_data"]
    if mutation.file == CHECKPOINT:
        tests.insert(0, "test_checkpoint")
    files = [f"tests/{test}.py" for test in tests]
    others = sorted(
        set(map(str, project.glob("tests/test_*.py"))) - {str(project / f) for f in files}
    )
    process = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "--tb=line", *files, *others],
        cwd=project,
        env=os.environ | {"PYTHONPATH": str(project / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 1, f"{name}: not noticed\n{process.stdout[-2000:]}"
