"""What is believed of the error model before any measured ranking is looked at.

Written on 2026-12-01, before the first fit of this package and before any ranked list was looked at with it; the commit
that adds this file adds nothing else of the decision layer. A prior stays in force where fewer than ``ENOUGH_PROBLEMS``
measured problems inform a variance; elsewhere the fit (``scripts/fit_decisions.py``) replaces it, and starts from it.

All figures are standard deviations of log(measured / predicted), pure numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from cost_models.records import record

ENOUGH_PROBLEMS = 5
INFORMING_SPREAD = (
    0.01  # a problem informs a cause where the cause's share of the step has this standard deviation in it
)

# One factor per cause of StepCost.time_s. Computing is priced from measured tables of single kernels, whose fits err by 2
# to 8%; isolated collectives err by 10 to 20%, and in a step they contend; what is exposed of an overlap is the
# difference of two large numbers, so its factor is the widest.
CAUSE_SD: Mapping[str, float] = {
    "attention": 0.10, "gemm": 0.06, "experts": 0.15, "memory_bound": 0.15, "embedding": 0.30, "head": 0.10, "host": 0.30,
    "tp_comm": 0.25, "cp_comm": 0.35, "ep_comm": 0.35, "pp_comm": 0.50, "dp_comm": 0.50, "recompute": 0.10,
    "bubble": 0.20, "optimizer": 0.30, "overhead": 0.50, "straggler": 0.50,
}  # fmt: skip
OTHER_CAUSE_SD = 0.30  # a cause that a later cost model adds

# What no cause explains, by axis: two strategies that differ in one axis differ by a random amount of this standard
# deviation (for sizes: per doubling, as a random walk), so that near twins share most of their residual. 2% per axis is
# the noise between releases of one recipe (4 to 6% over a handful of axes, README of the runs); what changes the program
# and not only its shape (overlap, dispatcher, schedule) is given twice that.
AXIS_SD: Mapping[str, float] = {
    "tp": 0.02, "pp": 0.02, "vpp": 0.02, "cp": 0.03, "ep": 0.03, "etp": 0.03, "dp": 0.01, "micro_batch": 0.02,
    "recompute": 0.02, "zero": 0.02, "sequence_parallel": 0.02, "attention": 0.03,
    "schedule": 0.04, "dispatcher": 0.04, "ep_overlap": 0.04, "offload": 0.04, "swap": 0.04, "layout": 0.02,
}  # fmt: skip
NOISE_SD = 0.01  # of one run: the noise floor of bf16 dense runs, README of the runs (fp8 and MoE 0.02)

# The common factor of machine and stack, which cancels in a ranking: the mean error of a source that nothing was fitted
# to is of this order; half of its variance is taken as the machine's and half as the program's, for want of runs that
# tell them apart, and the case itself (model, batch) adds its own.
COMMON_SD = 0.10
STRANGE_SD = (
    0.30  # of a cluster that runs as no other of its kind (a slow fabric, a throttled card); added with the fit
)
STRANGE_SHARE = 0.1
CASE_SD = 0.03  # 0.05 at first; the offsets of one source's problems spread by less than their rows' own errors explain
MACHINE_SHARE = 0.5


@record
class Unmeasured:
    """A mechanism of which no measured run of ours tells: log(measured / predicted) of its rows gets ``bias`` and ``sd``."""

    bias: float
    sd: float
    why: str


# The price takes such a mechanism to work as its authors say (copies wholly hidden, lanes that never wait for each other).
# Whatever is wrong with that makes it slower: the error is one-sided, and a half-normal of scale 0.05 has mean 0.04 and
# standard deviation 0.03. 0.05 is what the mechanisms that were measured erred by when they were first met (the noise
# between releases of one recipe, and the median error of a source that nothing was fitted to).
_HALF_NORMAL = {"bias": 0.04, "sd": 0.03}
UNMEASURED: Mapping[str, Unmeasured] = {
    "swap": Unmeasured(**_HALF_NORMAL, why="its copies are priced as hidden but for the waits the lanes show"),
    "offload": Unmeasured(**_HALF_NORMAL, why="the host's optimizer step and its copies are priced from datasheets"),
    "zero-bubble": Unmeasured(**_HALF_NORMAL, why="weight gradients are priced as separable from input gradients"),
    "v-shaped": Unmeasured(**_HALF_NORMAL, why="two chunks that mirror each other are priced as equal in time"),
    "dualpipe": Unmeasured(**_HALF_NORMAL, why="expert communication is priced as hidden under the other direction"),
    "adaptive-pipe": Unmeasured(**_HALF_NORMAL, why="hierarchical dispatch and overlap are priced from their paper"),
    "ragged-layout": Unmeasured(bias=0.02, sd=0.02, why="stages without work are priced as free"),
    "empty-stages": Unmeasured(bias=0.02, sd=0.02, why="slots that only pass on are priced as free"),
    "ep-overlap": Unmeasured(**_HALF_NORMAL, why="expert communication is priced as hidden where computing lasts"),
    "hierarchical-dispatch": Unmeasured(**_HALF_NORMAL, why="its two hops are priced as overlapping"),
    "cp": Unmeasured(bias=0.02, sd=0.03, why="ring steps are priced as hidden where attention lasts"),
    "etp": Unmeasured(bias=0.02, sd=0.03, why="expert GEMMs cut by ETP are priced from wider ones"),
    "zero3": Unmeasured(**_HALF_NORMAL, why="parameter gathers are priced as prefetched"),
    "vpp": Unmeasured(bias=0.01, sd=0.02, why="chunks of few layers pay launches that the price spreads"),
    "recompute": Unmeasured(bias=0.01, sd=0.02, why="recomputed modules are priced at their forward"),
}
NEW_CARD_FACTOR = 1.5  # on every sd, where no measured problem ran on the card: its curves are datasheet and kin

# Memory: log(measured peak / predicted). The probit of two A100 sources that the issue reports is the pooled prior.
MEMORY_SHIFT = -0.016
MEMORY_SD = 0.134
# Over a run of a dropless mixture of experts the hottest card sees more tokens than the first step showed and the
# allocator keeps what it once held: growth of the activations' bytes from the first step to the run's worst. A load
# that drifts by a tenth moves the expert activations by a tenth; half of the saved bytes are theirs: 5%, give or take.
DROPLESS_GROWTH = 0.05
DROPLESS_GROWTH_SD = 0.04

# Added with the fit, after its residuals were seen: starting values only, which hundreds of pairs of rows move.
# What no factor and no single axis explains: decorrelates over two steps along the axes. Half again of an axis.
NEAR_SD = 0.03
SHARED = 0.5  # of the variances above: common to all cases of one machine and stack, before problems tell
DEGREES = 4.0  # of the t distribution: the scale of a stack's errors is itself known to half an octave
ENOUGH_RUNS = (
    10  # measured runs, of ENOUGH_SOURCES programs or more, after which a mechanism carries no bias of its own:
)
ENOUGH_SOURCES = 2  # one program's runs tell of that program
MEASURED = Unmeasured(bias=0.0, sd=0.0, why="measured")
