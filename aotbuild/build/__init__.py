"""From a manifest to `_aot/`: plan, trace, lower, compile, pack. Never imported by the runtime."""
