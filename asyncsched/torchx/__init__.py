"""For installations of TorchX: its schedulers run on asyncsched, and its apps run here.

Of the modules only `convert` and what it uses work without TorchX.
"""
