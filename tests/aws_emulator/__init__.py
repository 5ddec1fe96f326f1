"""An AWS Batch and CloudWatch Logs that runs here: moto_server plus what it lacks.

Jobs, job definitions and log events are this package's own; queues, compute environments, roles and
registries are moto's. It follows what botocore's service models and AWS's documentation say, and it has
never been compared with a real account.

=================  =====================================================================================
``timeline``       what will happen, in order of time, on a clock that a test may own
``model``          jobs, nodes and attempts as plain data
``lifecycle``      the states of a job: capacity, main node, children, retries, time limits
``scripts``        nodes without containers: a command is a list of steps
``processes``      nodes as processes of this machine
``containers``     nodes as containers of a Docker daemon
``events``         CloudWatch's streams, pages and tokens
``definitions``    job definitions and their revisions
``render``         jobs as DescribeJobs and ListJobs show them
``batch``, ``logs``  the operations
``traffic``        counters, throttling, faults
``shapes``         botocore's own model as the judge of requests and answers
``cloud``          all of it, in one object
``direct``         clients that call a cloud without a network, for tests on virtual time
``server``         HTTP: the operations above, and moto for the rest
=================  =====================================================================================
"""
