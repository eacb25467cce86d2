"""``python -m autodeploy``."""

from autodeploy.cli.app import run

run()
