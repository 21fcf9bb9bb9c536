"""An equivariant network of e3nn-jax with flax: energies, forces by gradient, and a train step."""

import e3nn_jax as e3nn
import flax.linen as nn
import jax
import jax.numpy as jnp
import optax
from flax.training.train_state import TrainState


class Layer(nn.Module):
    target: str

    @nn.compact
    def __call__(self, features, positions, senders, receivers):
        vectors = e3nn.IrrepsArray("1o", positions[receivers] - positions[senders])
        harmonics = e3nn.spherical_harmonics([0, 1], vectors, normalize=True)
        distances = e3nn.norm(vectors, per_irrep=False).array
        radial = e3nn.bessel(distances[:, 0], 6, x_max=3.0)
        messages = e3nn.tensor_product(features[senders], harmonics, filter_ir_out="0e + 1o")
        messages = e3nn.concatenate([messages, features[senders]]).regroup()
        weights = e3nn.flax.MultiLayerPerceptron((16, messages.irreps.num_irreps), jax.nn.silu)
        messages = messages * weights(radial)
        zeros = e3nn.zeros(messages.irreps, (features.shape[0],), messages.dtype)
        aggregated = zeros.at[receivers].add(messages) / 2.0
        wanted = e3nn.Irreps(self.target)
        gated = wanted + f"{wanted.filter(drop='0e').num_irreps}x0e"
        return e3nn.gate(e3nn.flax.Linear(gated)(aggregated))


class Energy(nn.Module):
    @nn.compact
    def __call__(self, features, positions, senders, receivers):
        features = Layer("4x0e + 2x1o")(features, positions, senders, receivers)
        return e3nn.flax.Linear("0e")(features).array.sum()


def example_features():
    return e3nn.IrrepsArray("4x0e", jnp.ones((6, 4)))


model = Energy()


def make_state():
    edges = jnp.arange(5)
    params = model.init(jax.random.key(0), example_features(), jnp.zeros((6, 3)), edges, edges + 1)
    return TrainState.create(apply_fn=model.apply, params=params, tx=optax.amsgrad(1e-3))


def make_params():
    return make_state().params


def forces(params, features, positions, senders, receivers):
    """Return energy and forces."""
    energy, gradient = jax.value_and_grad(model.apply, argnums=2)(
        params, features, positions, senders, receivers
    )
    return energy, -gradient


def train_step(state, features, positions, senders, receivers, wanted):
    def loss_fn(params):
        _, found = forces(params, features, positions, senders, receivers)
        return jnp.mean((found - wanted) ** 2)

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss
