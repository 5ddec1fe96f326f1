"""Configuration from files, the environment and the command line; every value knows its origin."""

from __future__ import annotations

from asyncsched.runner.config.config import Config, load_config
from asyncsched.runner.config.options import run_options
from asyncsched.runner.config.setting import Setting, Settings
from asyncsched.runner.config.template import config_template

__all__ = ["Config", "Setting", "Settings", "config_template", "load_config", "run_options"]
