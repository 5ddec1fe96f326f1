"""What the TorchX documents promise of schedulers, as a table whose rows are run.

The pages are those on the interface of schedulers and on the local, Docker, Kubernetes, AWS Batch and GCP Batch ones.
Each row says in a sentence what a page promises, and holds a program as somebody would have ported it: the imports are
ours, and `way(...)` stands where an `await` was added. It runs twice: awaiting, and with `asyncsched.sync`.

A row of a backend joins when the backend is registered; one that needs the service joins when the backend has a place
to run, in `places`.
"""
