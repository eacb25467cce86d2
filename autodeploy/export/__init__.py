"""Launch settings of a strategy: for Megatron-LM, MindSpeed-LLM, Megatron-Bridge, torchtitan and DeepSpeed."""

from autodeploy.export.job import Job, job_of
from autodeploy.export.targets import TARGETS, export_text, suffix_of

__all__ = ["TARGETS", "Job", "export_text", "job_of", "suffix_of"]
