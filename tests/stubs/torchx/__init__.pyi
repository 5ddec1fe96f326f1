"""What asyncsched.torchx uses of TorchX, as 0.7 and its nightlies both have it."""

__version__: str
