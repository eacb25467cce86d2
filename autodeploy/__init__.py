"""AutoDeploy: the open digital twin for training large language models."""

__version__ = "0.1.0"
