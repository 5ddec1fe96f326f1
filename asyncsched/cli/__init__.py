"""The command line: ``asyncsched``, or ``python -m asyncsched``."""
