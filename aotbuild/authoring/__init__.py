"""Manifests and projects that are written for their users: from sources and from recordings."""
