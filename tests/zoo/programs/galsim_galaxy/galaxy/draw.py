"""Galaxies of JAX-GalSim: profiles as arguments, drawn into images, and a fit's gradient."""

import jax
import jax.numpy as jnp
import jax_galsim as galsim


def profile():
    return galsim.Gaussian(flux=100.0, sigma=1.2).shear(g1=0.1, g2=-0.05)


def draw(profile: galsim.GSObject):
    """Draw a profile; return the library's image object."""
    return profile.drawImage(nx=16, ny=16, scale=0.4, method="no_pixel")


def observe(half_light_radius, flux, g1, g2):
    """Draw a sheared galaxy, convolved with a point spread function."""
    galaxy = galsim.Exponential(half_light_radius=half_light_radius, flux=flux)
    galaxy = galaxy.shear(g1=g1, g2=g2)
    psf = galsim.Gaussian(flux=1.0, half_light_radius=0.7)
    final = galsim.Convolve(
        [galaxy, psf], gsparams=galsim.GSParams(minimum_fft_size=64, maximum_fft_size=64)
    )
    return final.drawImage(nx=16, ny=16, scale=0.4, method="no_pixel").array


def fit_gradient(parameters, target):
    def loss(parameters):
        return jnp.mean((observe(**parameters) - target) ** 2)

    return jax.value_and_grad(loss)(parameters)
