"""Extends asyncsched: a scheduler, a component, a named resource, a command."""
