"""Optimizers as fine-tuning puts them together: frozen parts, groups, accumulation, safeguards."""

import jax
import jax.numpy as jnp
import optax
import optax.contrib


def make_params():
    keys = jax.random.split(jax.random.key(0), 3)
    return {
        "encoder": {"w": jax.random.normal(keys[0], (8, 16)) * 0.1, "b": jnp.zeros(16)},
        "adapter": {"w": jax.random.normal(keys[1], (16, 16)) * 0.1, "b": jnp.zeros(16)},
        "head": {"w": jax.random.normal(keys[2], (16, 3)) * 0.1, "b": jnp.zeros(3)},
    }


def loss_fn(params, x, y):
    x = jnp.tanh(x @ params["encoder"]["w"] + params["encoder"]["b"])
    x = x + jnp.tanh(x @ params["adapter"]["w"] + params["adapter"]["b"])
    logits = x @ params["head"]["w"] + params["head"]["b"]
    return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()


def is_matrix(params):
    return jax.tree.map(lambda p: p.ndim > 1, params)


grouped = optax.chain(
    optax.clip_by_global_norm(1.0),
    optax.multi_transform(
        {
            "frozen": optax.set_to_zero(),
            "slow": optax.adamw(optax.cosine_decay_schedule(1e-4, 500), mask=is_matrix),
            "fast": optax.lion(1e-3),
        },
        {"encoder": "frozen", "adapter": "slow", "head": "fast"},
    ),
)
masked = optax.MultiSteps(
    optax.apply_if_finite(
        optax.chain(
            optax.masked(optax.add_decayed_weights(1e-3), is_matrix),
            optax.scale_by_adam(),
            optax.inject_hyperparams(optax.scale_by_learning_rate)(learning_rate=1e-2),
        ),
        max_consecutive_errors=3,
    ),
    every_k_schedule=2,
)
schedule_free = optax.contrib.schedule_free_adamw(1e-3, warmup_steps=5)
lbfgs = optax.lbfgs(memory_size=4)


def grouped_state():
    return grouped.init(make_params())


def masked_state():
    return masked.init(make_params())


def schedule_free_state():
    return schedule_free.init(make_params())


def lbfgs_state():
    return lbfgs.init(make_params())


def grouped_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = grouped.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def masked_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = masked.update(grads, state, params)
    return optax.apply_updates(params, updates), state, loss


def schedule_free_step(params, state, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    updates, state = schedule_free.update(grads, state, params)
    params = optax.apply_updates(params, updates)
    averaged = optax.contrib.schedule_free_eval_params(state, params)
    return params, state, loss, averaged


def lbfgs_step(params, state, x, y):
    def value_fn(params):
        return loss_fn(params, x, y)

    value, grads = optax.value_and_grad_from_state(value_fn)(params, state=state)
    updates, state = lbfgs.update(grads, state, params, value=value, grad=grads, value_fn=value_fn)
    return optax.apply_updates(params, updates), state, value
