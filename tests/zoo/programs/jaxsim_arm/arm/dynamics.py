"""A two-link arm of jaxsim: the model and its data are arguments, as in its examples."""

import jax.numpy as jnp
import jaxsim.api as js

SDF = """
<sdf version="1.9">
  <model name="arm">
    <link name="base">
      <inertial><mass>1</mass>
        <inertia><ixx>.1</ixx><iyy>.1</iyy><izz>.1</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia>
      </inertial>
    </link>
    <link name="upper"><pose>0 0 -0.25 0 0 0</pose>
      <inertial><mass>2</mass>
        <inertia><ixx>.2</ixx><iyy>.2</iyy><izz>.1</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia>
      </inertial>
    </link>
    <link name="lower"><pose>0 0 -0.75 0 0 0</pose>
      <inertial><mass>1</mass>
        <inertia><ixx>.1</ixx><iyy>.1</iyy><izz>.05</izz><ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia>
      </inertial>
    </link>
    <joint name="fixed" type="fixed"><parent>world</parent><child>base</child></joint>
    <joint name="shoulder" type="revolute">
      <parent>base</parent><child>upper</child><pose relative_to="base">0 0 0 0 0 0</pose>
      <axis><xyz>0 1 0</xyz></axis>
    </joint>
    <joint name="elbow" type="revolute">
      <parent>upper</parent><child>lower</child><pose relative_to="upper">0 0 -0.25 0 0 0</pose>
      <axis><xyz>0 1 0</xyz></axis>
    </joint>
  </model>
</sdf>
"""


def model():
    return js.model.JaxSimModel.build_from_model_description(SDF, time_step=1e-3)


def data():
    return js.data.JaxSimModelData.build(
        model(), joint_positions=jnp.array([0.3, -0.2]), joint_velocities=jnp.zeros(2)
    )


def step(model: js.model.JaxSimModel, data: js.data.JaxSimModelData, torques):
    return js.model.step(model=model, data=data, joint_force_references=torques)


def dynamics(model: js.model.JaxSimModel, data: js.data.JaxSimModelData):
    """Return mass matrix, bias forces and the Jacobian of each link."""
    return (
        js.model.free_floating_mass_matrix(model=model, data=data),
        js.model.free_floating_bias_forces(model=model, data=data),
        js.model.generalized_free_floating_jacobian(model=model, data=data),
    )
