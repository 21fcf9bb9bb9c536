"""One step of an ant with mujoco-mjx: arrays in, arrays out, so that every backend can call it."""

from __future__ import annotations

from pathlib import Path

import jax
import mujoco
from mujoco import mjx

_MODEL = Path(__file__).parent / "ant.xml"


def apply(
    position: jax.Array, velocity: jax.Array, control: jax.Array
) -> tuple[jax.Array, jax.Array]:
    """Return (position, velocity) one step later: f32[15], f32[14], f32[8] to f32[15], f32[14]."""
    model = mjx.put_model(mujoco.MjModel.from_xml_path(str(_MODEL)))
    state = mjx.make_data(model).replace(qpos=position, qvel=velocity, ctrl=control)
    state = mjx.step(model, state)
    return state.qpos, state.qvel
