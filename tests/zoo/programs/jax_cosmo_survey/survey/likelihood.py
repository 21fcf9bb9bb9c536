"""Angular power spectra of a lensing survey, and the Fisher matrix of supernovae."""

import jax
import jax.numpy as jnp
import jax_cosmo as jc

ell = jnp.logspace(1, 3, 6)
redshifts = [jc.redshift.smail_nz(1.0, 2.0, 1.0, gals_per_arcmin2=10)]
probes = [jc.probes.WeakLensing(redshifts, sigma_e=0.26)]


def planck():
    return jc.Planck15()


def spectra(cosmo: jc.Cosmology, ell):
    return jc.angular_cl.angular_cl(cosmo, ell, probes)


def distances(cosmo: jc.Cosmology, a):
    return jc.background.angular_diameter_distance(cosmo, a), jc.background.growth_factor(cosmo, a)


def fisher(omega_c, w0):
    """Return the Fisher matrix of two parameters, from distance moduli of supernovae."""

    def mean(theta):
        cosmo = jc.Planck15(Omega_c=theta[0], w0=theta[1])
        a = 1 / (1 + jnp.linspace(0.1, 1.0, 6))
        return 5 * jnp.log10(jc.background.angular_diameter_distance(cosmo, a) / a**2)

    jacobian = jax.jacfwd(mean)(jnp.stack([omega_c, w0]))
    return jacobian.T @ jacobian / 0.1**2
