"""Kubernetes: ``kubernetes``."""
