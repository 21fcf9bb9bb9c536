"""A hopping leg with floor contact, simulated by MuJoCo XLA as in its tutorial."""

import jax
import jax.numpy as jnp
import mujoco
from mujoco import mjx

XML = """
<mujoco>
  <option timestep="0.004" iterations="4" ls_iterations="4">
    <flag eulerdamp="disable"/>
  </option>
  <default>
    <joint armature="0.1" damping="1"/>
    <geom friction="0.9 0.1 0.1"/>
  </default>
  <worldbody>
    <geom name="floor" type="plane" size="10 10 0.1"/>
    <body name="torso" pos="0 0 0.9">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom type="capsule" fromto="0 0 0.2 0 0 -0.2" size="0.05" contype="0" conaffinity="0"/>
      <body name="leg" pos="0 0 -0.2">
        <joint name="knee" axis="0 1 0" range="-1 1" limited="true"/>
        <geom name="foot" type="capsule" fromto="0 0 0 0 0 -0.5" size="0.04"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <motor joint="knee" gear="20" ctrlrange="-1 1" ctrllimited="true"/>
  </actuator>
</mujoco>
"""

mj_model = mujoco.MjModel.from_xml_string(XML)


def model():
    return mjx.put_model(mj_model)


def data():
    return mjx.make_data(mj_model)


def step(model: mjx.Model, data: mjx.Data, ctrl) -> mjx.Data:
    return mjx.step(model, data.replace(ctrl=ctrl))


def rollout(qpos, ctrls):
    """Simulate a batch of starts, each with its own controls; return paths and last speeds."""
    model = mjx.put_model(mj_model)
    start = mjx.make_data(model)

    def simulate(qpos, ctrls):
        def body(data, ctrl):
            data = mjx.step(model, data.replace(ctrl=ctrl))
            return data, (data.qpos, data.qvel)

        last, path = jax.lax.scan(body, start.replace(qpos=qpos), ctrls)
        return jnp.sum(last.qvel**2), path

    return jax.vmap(simulate)(qpos, ctrls)
