"""Groups of jobs: many apps, a limit, retries, and one end.

Callers hold a `group`, its `job` objects, and the streams `completed` and `states`; `job_requests` answers what a job
asks of its group. Behind them the `engine` launches jobs and decides what follows an attempt's end; it builds on
`following`, which watches attempts, and `ledger`, which knows where each job is. `durable` is the engine of a group
with a key, which survives its process by a `journal`. `leaving` ends a group, `keeper` keeps its logs in files, and
`calling_off` lets another process end it. `settings`, `labels` and `outcome` are pure. `host` is what a group needs
of its runner.
"""
