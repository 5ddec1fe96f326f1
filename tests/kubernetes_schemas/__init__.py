"""The published schemas of Kubernetes and Volcano, trimmed to the kinds that are used, and a checker of objects."""
