"""A double DQN learner and an actor-critic loss with V-trace, of rlax, in chex dataclasses."""

import chex
import haiku as hk
import jax
import jax.numpy as jnp
import optax
import rlax


@chex.dataclass(frozen=True)
class LearnerState:
    online: hk.Params
    target: hk.Params
    opt_state: optax.OptState
    count: chex.Array


@chex.dataclass(frozen=True)
class Transition:
    observation: chex.Array
    action: chex.Array
    reward: chex.Array
    discount: chex.Array
    next_observation: chex.Array


network = hk.without_apply_rng(hk.transform(lambda x: hk.nets.MLP([32, 32, 4])(hk.Flatten()(x))))
actor = hk.without_apply_rng(
    hk.transform(lambda x: (hk.nets.MLP([16, 4])(x), jnp.squeeze(hk.nets.MLP([16, 1])(x), -1)))
)
optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3))


def initial_state():
    params = network.init(jax.random.PRNGKey(0), jnp.zeros((1, 5, 2)))
    return LearnerState(
        online=params, target=params, opt_state=optimizer.init(params), count=jnp.zeros((), int)
    )


def example_batch(size: int):
    rows = jnp.zeros((size, 5, 2))
    column = jnp.zeros(size)
    return Transition(
        observation=rows,
        action=column.astype(int),
        reward=column,
        discount=column,
        next_observation=rows,
    )


def learner_step(state: LearnerState, batch: Transition):
    chex.assert_rank([batch.observation, batch.action, batch.reward], [3, 1, 1])

    def loss_fn(params):
        errors = jax.vmap(rlax.double_q_learning)(
            network.apply(params, batch.observation),
            batch.action,
            batch.reward,
            batch.discount,
            network.apply(state.target, batch.next_observation),
            network.apply(params, batch.next_observation),
        )
        return jnp.mean(rlax.huber_loss(errors)), errors

    grads, errors = jax.grad(loss_fn, has_aux=True)(state.online)
    updates, opt_state = optimizer.update(grads, state.opt_state)
    online = optax.apply_updates(state.online, updates)
    target = optax.periodic_update(online, state.target, state.count, 2)
    return LearnerState(
        online=online, target=target, opt_state=opt_state, count=state.count + 1
    ), errors


def network_params():
    return initial_state().online


def actor_params():
    return actor.init(jax.random.PRNGKey(0), jnp.zeros((1, 6)))


def act(params, key, observation, epsilon):
    q_values = network.apply(params, observation[None])[0]
    return rlax.epsilon_greedy(epsilon).sample(key, q_values), q_values


def vtrace_loss(params, observations, actions, rewards, discounts, behaviour):
    """Return loss and gradient of one trajectory."""

    def loss_fn(params):
        logits, values = actor.apply(params, observations)
        rho = rlax.categorical_importance_sampling_ratios(logits[:-1], behaviour, actions)
        trace = rlax.vtrace_td_error_and_advantage(
            values[:-1], values[1:], rewards, discounts, rho, lambda_=0.9
        )
        policy = rlax.policy_gradient_loss(
            logits[:-1], actions, trace.pg_advantage, jnp.ones_like(rewards)
        )
        entropy = rlax.entropy_loss(logits[:-1], jnp.ones_like(rewards))
        return policy + 0.5 * jnp.mean(trace.errors**2) + 0.01 * entropy

    return jax.value_and_grad(loss_fn)(params)
