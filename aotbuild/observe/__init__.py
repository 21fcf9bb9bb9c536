"""What libraries do, as metrics: `prometheus` and `opentelemetry` export the runtime's events."""
