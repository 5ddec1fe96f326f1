"""Groups of jobs: many apps, a limit, retries, and one end.

`settings` says what a group was asked for, `outcome` judges an end, `job` is what a caller holds of one job. `engine`
launches and follows; `ending` stops it; `group` and `completed` are what a caller sees of them. `journal` and
`durable` make a group survive its process.
"""
