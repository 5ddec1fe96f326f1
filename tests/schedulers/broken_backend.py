from asyncsched.errors import a_name_that_is_not_there  # type: ignore[attr-defined] # noqa: F401 - it is meant to fail
