"""The supervisor: the process that runs the replicas of apps and writes their files.

Everything in this folder is standard library only and uses relative imports: it runs as
``python -I -S boot.py`` without the package around it. `formats`, `lines`, `files`, `host` and `identity_tags` are
also imported by the library, so that both sides share one description of the files and messages.

::

    boot.py                   finds this folder and starts main
    main.py                   the two processes: a watcher that only waits, and the worker under it
    worker.py                 the worker: apps, signals, its end
    control.py                JSON lines from the owner and from other processes of the same user
    lines.py                  how messages are written and read, at both ends
    handlers.py               the requests they may send
    persistence.py            saves records to the disk, and notifies watchers
    app.py                    one app: its replicas, its end, its record
    launch.py                 all replicas start, or none does
    between_fork_and_exec.py  sets up a replica between fork and exec
    exec_checks.py            finds programs that the kernel would refuse to execute
    replica.py                one replica: its exit, and the processes it leaves behind
    pipe_reader.py            copies its pipes to its log, which may wait for the disk
    log_writer.py             the log's files; drops old segments
    process_tree.py           finds descendant processes, and ends them
    ownership.py              finds the replica of each process
    identity_tags.py          tags that identify processes without parents
    limits.py                 raises resource limits
    events.py                 the event loop: epoll, timers and a nap
    bare.py                   signals, sockets and JSON without the modules around them

The start is most of what the supervisor of a small job costs. So no module imports `typing`, nor what `bare` avoids
(a test lists what may be imported); what only type checkers need stands under the `TYPE_CHECKING` below, which they
know by its name.
"""

TYPE_CHECKING = False
