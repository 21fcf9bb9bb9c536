"""Labeled arrays of coordax as arguments and results: weighted means and anomalies."""

import coordax as cx
import jax
import jax.numpy as jnp
import numpy as np

latitude = cx.LabeledAxis("latitude", np.linspace(-80, 80, 9))
longitude = cx.LabeledAxis("longitude", np.linspace(0, 330, 12))
time = cx.SizedAxis("time", 4)


def temperature():
    values = jax.random.normal(jax.random.key(0), (4, 9, 12)) + 280
    return cx.wrap(values, time, latitude, longitude)


def weighted_mean(field: cx.Field) -> jax.Array:
    """Average over the sphere; the time axis stays."""
    weights = cx.wrap(np.cos(np.deg2rad(latitude.ticks)), latitude)
    product = (field * weights).untag(latitude, longitude)
    return (cx.cmap(jnp.sum)(product) / (weights.data.sum() * 12)).data


def anomalies(field: cx.Field) -> dict[str, jax.Array]:
    """Split a field into its mean in time and what is left."""
    mean = cx.cmap(jnp.mean)(field.untag("time"))
    deviation = field - mean
    deviation = deviation.order_as(time, latitude, longitude)
    spread = cx.cmap(jnp.std)(deviation.untag("time"))
    return {"mean": mean.data, "deviation": deviation.data, "spread": spread.data}
