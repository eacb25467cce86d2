"""Hardware profiles: YAML in, ``HardwareProfile`` out."""

from autodeploy.hardware.library import hardware_aliases, hardware_names
from autodeploy.hardware.load import load_hardware

__all__ = ["hardware_aliases", "hardware_names", "load_hardware"]
