"""For installations of TorchX: TorchX's schedulers run on asyncsched, and TorchX's apps run here.

Only `convert` and the modules it uses work without TorchX.
"""
