"""Double DQN of rlax with flashbax's replay buffers."""

import flashbax as fbx
import jax
import jax.numpy as jnp
import optax
import rlax

buffer = fbx.make_flat_buffer(max_length=32, min_length=4, sample_batch_size=8, add_batch_size=2)
prioritised = fbx.make_prioritised_flat_buffer(
    max_length=32, min_length=4, sample_batch_size=4, add_batch_size=2
)
optimizer = optax.rmsprop(1e-3)


def timestep():
    return {
        "obs": jnp.zeros(3),
        "action": jnp.zeros((), jnp.int32),
        "reward": jnp.zeros(()),
        "discount": jnp.ones(()),
    }


def buffer_state():
    return buffer.init(timestep())


def prioritised_state():
    return prioritised.init(timestep())


def params():
    keys = jax.random.split(jax.random.key(0))
    return {"w1": jax.random.normal(keys[0], (3, 16)), "w2": jax.random.normal(keys[1], (16, 4))}


def learner():
    return {"online": params(), "target": params(), "opt": optimizer.init(params())}


def batch():
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (2, *x.shape)), timestep())


def q_values(params, obs):
    return jax.nn.relu(obs @ params["w1"]) @ params["w2"]


def add(state, batch):
    return buffer.add(state, batch)


def learn(learner, state, key):
    """Sample transitions and take one step of double Q-learning on them."""
    experience = buffer.sample(state, key).experience
    first, second = experience.first, experience.second

    def loss(online):
        td = jax.vmap(rlax.double_q_learning)(
            q_values(online, first["obs"]),
            first["action"],
            first["reward"],
            first["discount"] * 0.99,
            q_values(learner["target"], second["obs"]),
            q_values(online, second["obs"]),
        )
        return jnp.mean(rlax.huber_loss(td))

    value, grads = jax.value_and_grad(loss)(learner["online"])
    updates, opt = optimizer.update(grads, learner["opt"])
    online = optax.apply_updates(learner["online"], updates)
    target = optax.incremental_update(online, learner["target"], 0.05)
    return {"online": online, "target": target, "opt": opt}, value


def replay(state, batch, key):
    """Add to a prioritised buffer, sample from it, and set new priorities."""
    state = prioritised.add(state, batch)
    sample = prioritised.sample(state, key)
    priorities = jnp.abs(sample.experience.first["reward"]) + 0.1
    return prioritised.set_priorities(state, sample.indices, priorities), sample
