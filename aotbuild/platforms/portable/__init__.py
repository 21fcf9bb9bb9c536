"""The portable format: StableHLO that is compiled where it runs."""
