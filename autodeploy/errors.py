"""Errors that reach the user as one line and exit code 2."""

from cost_models.errors import ConfigError


class InputError(ConfigError):
    """Bad input at the border: InputError(field, value, allowed, remedy)."""
