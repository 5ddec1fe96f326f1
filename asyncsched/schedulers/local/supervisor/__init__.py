"""The process that owns an app's replicas, and the files that it leaves for its readers.

Everything in this folder is standard library only and uses relative imports: it runs as
``python -I -S boot.py`` without the package around it, and `layout`, `files` and `machine` are also read
by the library, so that both sides share one description of what is on disk and on the wire.

::

    boot.py      finds this folder and starts main
    main.py      the two processes: a watcher that only waits, and the worker under it
    worker.py    what the worker owns: apps, signals, the end
    control.py   JSON lines from the owner and from other processes of the same user
    launch.py    all replicas start, or none does
    child.py     what a replica does between fork and exec
    app.py       one app: its replicas, its end, its record
    replica.py   one replica: its output, its exit, what it leaves behind
    output.py    files that wait while the disk is full, and segments that are dropped when there are too many
    census.py    which processes are below us, and whose they are
    events.py    epoll, timers and a nap
"""
