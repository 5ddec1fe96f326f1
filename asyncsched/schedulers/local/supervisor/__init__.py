"""The process that owns an app's replicas, and the files that it leaves for its readers.

Everything in this folder is standard library only and uses relative imports: it runs as
``python -I -S boot.py`` without the package around it. `formats`, `lines`, `files`, `host` and `identity_tags` are
also read by the library, so that both sides share one description of what is on disk and on the wire.

::

    boot.py                   finds this folder and starts main
    main.py                   the two processes: a watcher that only waits, and the worker under it
    worker.py                 what the worker owns: apps, signals, the end
    control.py                JSON lines from the owner and from other processes of the same user
    lines.py                  how messages are written and read, at both ends
    handlers.py               what they may ask for
    persistence.py            what is told: the record on the disk, a word to those who watch
    app.py                    one app: its replicas, its end, its record
    launch.py                 all replicas start, or none does
    between_fork_and_exec.py  what a replica does between fork and exec
    exec_checks.py            what the kernel would refuse to execute
    replica.py                one replica: its exit, and what it leaves behind
    pipe_reader.py            from its pipes into its log, which may wait for the disk
    log_writer.py             the log's files, and segments that are dropped when there are too many
    process_tree.py           which processes are below us, and how they are told to end
    ownership.py              whose they are
    identity_tags.py          how they are known when they have lost their parents
    limits.py                 descriptors and the like: as many as there may be
    events.py                 epoll, timers and a nap
"""
