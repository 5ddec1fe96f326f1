from asyncsched.errors import a_name_that_is_not_there  # noqa: F401 - it is meant to fail
