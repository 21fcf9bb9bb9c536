"""PPO on a brax environment: environment step, inference and training step."""

import functools

import jax
import jax.numpy as jnp
import optax
from brax import envs
from brax.training import types
from brax.training.acme import running_statistics, specs
from brax.training.agents.ppo import losses, networks

env = envs.training.wrap(
    envs.get_environment("inverted_double_pendulum", backend="generalized"),
    episode_length=100,
    action_repeat=1,
)
ppo = networks.make_ppo_networks(
    env.observation_size,
    env.action_size,
    preprocess_observations_fn=running_statistics.normalize,
    policy_hidden_layer_sizes=(16, 16),
    value_hidden_layer_sizes=(16, 16),
)
make_policy = networks.make_inference_fn(ppo)
optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adam(3e-4))
ENVS, UNROLL = 4, 6


def initial_env_state():
    return env.reset(jax.random.split(jax.random.PRNGKey(1), ENVS))


def initial_params():
    policy_key, value_key = jax.random.split(jax.random.PRNGKey(0))
    normalizer = running_statistics.init_state(specs.Array((env.observation_size,), jnp.float32))
    networks = losses.PPONetworkParams(
        policy=ppo.policy_network.init(policy_key), value=ppo.value_network.init(value_key)
    )
    return normalizer, networks


def initial_optimizer_state():
    return optimizer.init(initial_params()[1])


def env_step(state: envs.State, action) -> envs.State:
    return env.step(state, action)


def act(params, observations, key):
    normalizer, networks = params
    policy = make_policy((normalizer, networks.policy), deterministic=True)
    return policy(observations, key)[0]


def unroll(params, state, key):
    normalizer, networks = params
    policy = make_policy((normalizer, networks.policy))

    def step(carry, _):
        state, key = carry
        key, key_act = jax.random.split(key)
        actions, extras = policy(state.obs, key_act)
        after = env.step(state, actions)
        transition = types.Transition(
            observation=state.obs,
            action=actions,
            reward=after.reward,
            discount=1 - after.done,
            next_observation=after.obs,
            extras={
                "policy_extras": extras,
                "state_extras": {"truncation": after.info["truncation"]},
            },
        )
        return (after, key), transition

    (state, _), data = jax.lax.scan(step, (state, key), length=UNROLL)
    return state, jax.tree.map(lambda x: jnp.swapaxes(x, 0, 1), data)


loss_fn = functools.partial(losses.compute_ppo_loss, ppo_network=ppo, entropy_cost=1e-2)


def train_step(params, opt_state, state: envs.State, key):
    """Collect one unroll and take one gradient step on it."""
    key_unroll, key_loss = jax.random.split(key)
    state, data = unroll(params, state, key_unroll)
    normalizer, networks = params
    normalizer = running_statistics.update(normalizer, data.observation)
    grads, metrics = jax.grad(loss_fn, has_aux=True)(networks, normalizer, data, key_loss)
    updates, opt_state = optimizer.update(grads, opt_state)
    return (normalizer, optax.apply_updates(networks, updates)), opt_state, state, metrics
