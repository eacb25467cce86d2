"""Models: zoo names, Hugging Face config.json, our YAML and Megatron arguments to ``ModelSpec``."""

from autodeploy.models.load import load_model
from autodeploy.models.zoo import zoo_names

__all__ = ["load_model", "zoo_names"]
