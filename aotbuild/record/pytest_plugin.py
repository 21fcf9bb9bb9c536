"""Empty: environments that were made before the plugin of pytest went still import it."""
