"""A driven, lossy cavity: master equation, pulse gradient and Schroedinger evolution."""

import dynamiqs as dq
import jax
import jax.numpy as jnp

dq.set_progress_meter(False)  # it is a callback into this process
SIZE = 8
a = dq.destroy(SIZE)
tsave = jnp.linspace(0.0, 1.0, 11)


def coherent():
    return dq.coherent(SIZE, 1.0)


def decay(psi0: dq.QArray, omega, kappa):
    """Return the states of a decaying cavity and its mean photon number over time."""
    hamiltonian = omega * dq.dag(a) @ a
    jump_ops = [jnp.sqrt(kappa) * a]
    exp_ops = [dq.number(SIZE)]
    result = dq.mesolve(hamiltonian, jump_ops, psi0, tsave, exp_ops=exp_ops)
    return result.states, result.expects


def drive_gradient(amplitudes, omega):
    """Differentiate the photon number with respect to the amplitudes of a drive."""

    def photons(amplitudes):
        drive = dq.pwc(jnp.linspace(0.0, 1.0, 5), amplitudes, a + dq.dag(a))
        hamiltonian = omega * dq.dag(a) @ a + drive
        result = dq.sesolve(hamiltonian, dq.basis(SIZE, 0), tsave)
        return dq.expect(dq.number(SIZE), result.states[-1]).real

    return jax.value_and_grad(photons)(amplitudes)


def evolve(psi0: dq.QArray, omega):
    """Return the library's whole result object."""
    return dq.sesolve(omega * dq.dag(a) @ a, psi0, tsave)
