"""Transforms between a function on the sphere and its spherical harmonics."""

import jax
import jax.numpy as jnp
import s2fft

L = 8


def analyze(f):
    return s2fft.forward(f, L, method="jax", reality=True)


def smooth(f, scale):
    """Smooth a function on the sphere with a Gaussian kernel, in harmonic space."""
    flm = s2fft.forward(f, L, method="jax")
    degree = jnp.arange(L)
    kernel = jnp.exp(-degree * (degree + 1) * scale**2 / 2)
    return s2fft.inverse(flm * kernel[:, None], L, method="jax")


def fit_step(flm, f, rate):
    """Take one step of gradient descent on the coefficients."""

    def loss(parts):
        f_model = s2fft.inverse(parts[0] + 1j * parts[1], L, method="jax")
        return jnp.mean(jnp.abs(f_model - f) ** 2)

    value, grads = jax.value_and_grad(loss)((flm.real, flm.imag))
    return flm - rate * (grads[0] + 1j * grads[1]), value
