"""The hatchling plugin of aotbuild: compiles a manifest's functions while a wheel is built."""
