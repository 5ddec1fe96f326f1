"""A double of Google Cloud Batch and Cloud Logging, judged by Google's own message definitions.

Every request is parsed by Google's protos and must be written as their own JSON would be; tasks run as containers on
a Docker daemon of the tests, or are played. What Google does not document is a model here: how a retried task looks
between its attempts, what a second cancel is answered, how late log entries turn up.
"""
