"""A user's own launch file, read: Megatron-LM / MindSpeed-LLM scripts and logs, and other programs' settings."""

from autodeploy.launch.launch import Launch
from autodeploy.launch.read import is_launch_file, read_launch

__all__ = ["Launch", "is_launch_file", "read_launch"]
