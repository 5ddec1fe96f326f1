from collections.abc import Mapping

DEFAULT_SCHEDULER_MODULES: Mapping[str, str]
