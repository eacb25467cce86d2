"""Megatron's ``validate_layer_layout``, one named rule each: a sentence when broken, else an empty string.

Source: Megatron-LM, megatron/core/transformer/pipeline_parallel_layer_layout.py. ``mtp_not_on_first_rank``
is meant there but its check skips the last chunk; here it holds for every chunk.
``ends_on_outer_stages`` is what pre_process and post_process of the model assume.
"""

from __future__ import annotations

from collections.abc import Callable

from autodeploy.errors import InputError

Rule = Callable[[tuple[str, ...], int, int, int], str]  # (stages, pp, num_layers, mtp_modules)


def _stages_divide(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    return f"{len(stages)} stages do not divide over {pp} pipeline ranks" if len(stages) % pp else ""


def _embedding_first(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    flat = "".join(stages)
    return "" if flat[:1] == "E" and flat.count("E") == 1 else "the embedding must be first, exactly once"


def _loss_last(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    flat = "".join(stages)
    return "" if flat[-1:] == "L" and flat.count("L") == 1 else "the loss must be last, exactly once"


def _ends_on_outer_stages(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    return "" if "E" in stages[0] and "L" in stages[-1] else "embedding and loss belong on the first and last stage"


def _layer_count(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    found = "".join(stages).count("t")
    return "" if found == num_layers else f"the layout holds {found} decoder layers, the model has {num_layers}"


def _mtp_count(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    found = "".join(stages).count("m")
    return "" if found == mtp else f"the layout holds {found} MTP modules, the model has {mtp}"


def _mtp_after_decoder(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    flat = "".join(stages)
    return "" if "m" not in flat or "t" not in flat[flat.index("m") :] else "MTP modules come after all decoder layers"


def _mtp_in_one_stage(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    return "" if sum("m" in stage for stage in stages) <= 1 else "all MTP modules share one virtual stage"


def _mtp_on_last_chunk(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    early = any("m" in stage for stage in stages[: max(0, len(stages) - pp)])
    return "MTP modules sit on the last virtual stage of their rank" if early else ""


def _mtp_not_on_first_rank(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> str:
    return "MTP modules may not sit on pipeline rank 0" if pp > 1 and any("m" in s for s in stages[::pp]) else ""


RULES: dict[str, Rule] = {
    "stages_divide": _stages_divide,
    "embedding_first": _embedding_first,
    "loss_last": _loss_last,
    "ends_on_outer_stages": _ends_on_outer_stages,
    "layer_count": _layer_count,
    "mtp_count": _mtp_count,
    "mtp_after_decoder": _mtp_after_decoder,
    "mtp_in_one_stage": _mtp_in_one_stage,
    "mtp_on_last_chunk": _mtp_on_last_chunk,
    "mtp_not_on_first_rank": _mtp_not_on_first_rank,
}


def broken_rules(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> dict[str, str]:
    """Every rule that the layout breaks: name -> sentence."""
    said = {name: rule(stages, pp, num_layers, mtp) for name, rule in RULES.items()}
    return {name: sentence for name, sentence in said.items() if sentence}


def check_layout(stages: tuple[str, ...], pp: int, num_layers: int, mtp: int) -> None:
    broken = broken_rules(stages, pp, num_layers, mtp)
    if broken:
        name, sentence = next(iter(broken.items()))
        raise InputError("pipeline layout", "|".join(stages), f"accepted by rule {name}", sentence)
