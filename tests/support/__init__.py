"""What several tests share: projects, packages, installations, hosts and fakes."""
