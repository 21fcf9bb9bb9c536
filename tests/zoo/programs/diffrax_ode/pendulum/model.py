"""diffrax: an adaptive solve, a stochastic one, and the train step of a neural ODE."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import optax


def pendulum(t, y, args):
    angle, speed = y
    damping, length = args
    return speed, -damping * speed - 9.81 / length * jnp.sin(angle)


def swing(angle, speed, damping, length, ts):
    """Solve a damped pendulum, and return diffrax's Solution."""
    return diffrax.diffeqsolve(
        diffrax.ODETerm(pendulum),
        diffrax.Tsit5(),
        t0=ts[0],
        t1=ts[-1],
        dt0=None,
        y0=(angle, speed),
        args=(damping, length),
        saveat=diffrax.SaveAt(ts=ts, dense=True),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-6),
    )


def walk(key, start):
    """Solve an Ornstein-Uhlenbeck process to its first exit from a ball."""
    path = diffrax.VirtualBrownianTree(0.0, 4.0, tol=1e-3, shape=(2,), key=key)
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -0.5 * y),
        diffrax.ControlTerm(lambda t, y, args: 0.4 * jnp.eye(2), path),
    )
    solution = diffrax.diffeqsolve(
        terms,
        diffrax.EulerHeun(),
        0.0,
        4.0,
        dt0=0.05,
        y0=start,
        event=diffrax.Event(lambda t, y, args, **kwargs: jnp.linalg.norm(y) > 2.0),
    )
    return solution.ts, solution.ys, solution.stats["num_steps"]


class NeuralODE(eqx.Module):
    mlp: eqx.nn.MLP

    def __call__(self, ts, y0):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: self.mlp(y)),
            diffrax.Tsit5(),
            t0=ts[0],
            t1=ts[-1],
            dt0=ts[1] - ts[0],
            y0=y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-3, atol=1e-6),
            saveat=diffrax.SaveAt(ts=ts),
        )
        return solution.ys


def make_model():
    return NeuralODE(eqx.nn.MLP(2, 2, 16, 2, activation=jax.nn.softplus, key=jr.key(0)))


optimizer = optax.adabelief(3e-3)


def make_opt_state():
    return optimizer.init(eqx.filter(make_model(), eqx.is_inexact_array))


@eqx.filter_value_and_grad
def loss_fn(model, ts, ys):
    return jnp.mean((jax.vmap(model, in_axes=(None, 0))(ts, ys[:, 0]) - ys) ** 2)


@eqx.filter_jit
def make_step(model, opt_state, ts, ys):
    loss, grads = loss_fn(model, ts, ys)
    updates, opt_state = optimizer.update(grads, opt_state)
    return loss, eqx.apply_updates(model, updates), opt_state
