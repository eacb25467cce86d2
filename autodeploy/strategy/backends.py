"""What each back end can launch, as data. ``any`` has everything that the twin can price.

Sources: Megatron-LM megatron/training/arguments.py and docs (schedules, flex dispatcher, MoE overlap); MindSpeed
features_manager/moe/fb_overlap.py and docs/zh/features (dualpipev, fb-overlap, hierarchical-alltoallv, swap-attention);
torchtitan distributed/pipeline_parallel.py and pytorch schedules (Interleaved1F1B, ZBVZeroBubble, DualPipeV).
"""

from __future__ import annotations

from autodeploy.errors import InputError
from cost_models.records import record
from cost_models.schedules import SCHEDULE_TABLE
from cost_models.strategies import DISPATCHERS, SCHEDULES


def _launched(backend: str) -> tuple[str, ...]:
    return tuple(name for name, schedule in SCHEDULE_TABLE.items() if backend in schedule.launched_by)


def _searched(backend: str) -> tuple[str, ...]:
    return tuple(name for name, schedule in SCHEDULE_TABLE.items() if backend in schedule.searched_by)


@record
class Backend:
    """One training program."""

    name: str
    schedules: tuple[str, ...]
    dispatchers: tuple[str, ...]
    overlapping_dispatchers: tuple[str, ...] = ()  # run only with the program's own overlap of expert communication
    zero_stages: tuple[int, ...]  # at PP 1
    zero_stages_pipelined: tuple[int, ...]  # at PP > 1
    search_zero: tuple[int, ...]  # that a free search tries
    search_schedules: tuple[str, ...]  # that a free search tries
    swaps_activations: bool = True
    offloads_optimizer: bool = True
    overlaps_ep: bool = True
    replicates_kv: bool = True  # TP beyond the KV groups
    partial_full_recompute: bool = True  # full recompute of the first n layers of a stage
    default_zero: int = 1  # of a strategy that says nothing, at PP 1
    default_zero_pipelined: int = 1  # and at PP > 1

    def zero_unsaid(self, pp: int) -> int:
        """ZeRO stage of a strategy that names none."""
        return self.default_zero_pipelined if pp > 1 else self.default_zero


_MEGATRON = Backend(
    name="megatron",
    schedules=_launched("megatron"),
    dispatchers=("alltoall", "allgather", "hierarchical-dedup"),
    zero_stages=(0, 1, 2, 3),
    zero_stages_pipelined=(0, 1, 2, 3),
    search_zero=(1,),
    search_schedules=_searched("megatron"),
)

BACKENDS: dict[str, Backend] = {
    "megatron": _MEGATRON,
    "megatron-bridge": Backend(
        name="megatron-bridge",
        schedules=_launched("megatron-bridge"),
        dispatchers=_MEGATRON.dispatchers,
        zero_stages=_MEGATRON.zero_stages,
        zero_stages_pipelined=_MEGATRON.zero_stages_pipelined,
        search_zero=(1,),
        search_schedules=_searched("megatron-bridge"),
    ),
    "mindspeed": Backend(
        name="mindspeed",
        schedules=_launched("mindspeed"),
        dispatchers=("alltoall", "allgather", "hierarchical-allgather"),
        # docs/features/hierarchical-alltoallv: only with moe_tp_extend_ep and moe_alltoall_overlap_comm
        overlapping_dispatchers=("hierarchical-allgather",),
        zero_stages=(0, 1, 2, 3),
        zero_stages_pipelined=(0, 1),
        search_zero=(1,),
        search_schedules=_searched("mindspeed"),
    ),
    "torchtitan": Backend(
        name="torchtitan",
        schedules=_launched("torchtitan"),
        dispatchers=("alltoall", "hierarchical-dedup"),
        zero_stages=(2, 3),
        zero_stages_pipelined=(2, 3),
        search_zero=(2, 3),
        search_schedules=_searched("torchtitan"),
        swaps_activations=False,
        offloads_optimizer=False,
        replicates_kv=False,
        partial_full_recompute=False,
        # distributed/fsdp.py, reshard_after_forward "default": parameters stay gathered where there is a pipeline
        default_zero=3,
        default_zero_pipelined=2,
    ),
    "any": Backend(
        name="any",
        schedules=SCHEDULES,
        dispatchers=DISPATCHERS,
        zero_stages=(0, 1, 2, 3),
        zero_stages_pipelined=(0, 1, 2, 3),
        search_zero=(1,),
        search_schedules=_searched("any"),
    ),
}


def backend_named(name: str) -> Backend:
    if name not in BACKENDS:
        raise InputError("--backend", name, f"one of {', '.join(BACKENDS)}")
    return BACKENDS[name]
