"""Augmentation on the accelerator: augmax and dm-pix, with patches cut by einops."""

import augmax
import dm_pix as pix
import jax
import jax.numpy as jnp
from einops import rearrange, reduce

transform = augmax.Chain(
    augmax.ByteToFloat(),
    augmax.RandomSizedCrop(24, 24, zoom_range=(0.8, 1.2)),
    augmax.HorizontalFlip(),
    augmax.Rotate(angle_range=20),
    augmax.ColorJitter(brightness=0.1, contrast=0.1, saturation=0.1, hue=0.05),
    augmax.Normalize(mean=jnp.array([0.5, 0.5, 0.5]), std=jnp.array([0.2, 0.2, 0.2])),
)


def augment(seed, images):
    """Return augmented patches of a batch of byte images, from the seed's key data."""
    keys = jax.random.split(jax.random.wrap_key_data(seed), images.shape[0])
    images = jax.vmap(transform)(keys, images)
    return rearrange(images, "b (h p) (w q) c -> b (h w) (p q c)", p=8, q=8)


def degrade(seed, images):
    """Return degraded images, with how much each differs from its original."""
    keys = jax.random.split(jax.random.wrap_key_data(seed), 3)
    noisy = pix.random_brightness(keys[0], images, 0.2)
    noisy = pix.random_contrast(keys[1], noisy, lower=0.8, upper=1.2)
    noisy = jnp.clip(pix.random_hue(keys[2], noisy, 0.1), 0, 1)
    blurred = pix.gaussian_blur(noisy, sigma=1.0, kernel_size=5)
    return {
        "images": pix.depth_to_space(pix.space_to_depth(blurred, 2), 2),
        "ssim": pix.ssim(images, blurred),
        "psnr": pix.psnr(images, blurred),
        "mean": reduce(blurred, "b h w c -> b c", "mean"),
    }
