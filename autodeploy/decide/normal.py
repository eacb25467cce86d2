"""Normal and chi-square functions without scipy, which takes half a second to import.

Arrays of any shape.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from cost_models.strategies import F64

_ERF = np.vectorize(math.erf, otypes=[float])

# Numerators and denominators of the middle (|p - 1/2| <= 0.425), of the tails and of the far tails, highest power first.
# Source: Wichura, Algorithm AS 241, Applied Statistics 37(3), 1988.
_MIDDLE = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.3871328727963666080),
    (5226.4952788528545610, 28729.085735721942674, 39307.895800092710610, 21213.794301586595867,
     5394.1960214247511077, 687.18700749205790830, 42.313330701600911252, 1.0),
)  # fmt: skip
_TAIL = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip


def normal_cdf(z: ArrayLike) -> F64:
    """P(a standard normal is below z)."""
    return np.asarray(0.5 * (1.0 + _ERF(np.asarray(z, dtype=float) / math.sqrt(2.0))))


def normal_quantile(p: ArrayLike) -> F64:
    """The inverse of ``normal_cdf``; 0 < p < 1."""
    chance = np.asarray(p, dtype=float)
    q = chance - 0.5
    found = np.asarray(q * _ratio(_MIDDLE, 0.180625 - q * q))
    outer = np.abs(q) > 0.425
    if outer.any():
        r = np.sqrt(-np.log(np.minimum(chance, 1.0 - chance)[outer]))
        tail = (
            _ratio(_TAIL, r - 1.6)
            if r.max() <= 5.0
            else np.where(r <= 5.0, _ratio(_TAIL, r - 1.6), _ratio(_FAR, r - 5.0))
        )
        found[outer] = np.copysign(tail, q[outer])
    return found


@lru_cache(maxsize=4)
def normal_middles(count: int) -> F64:
    """The quantiles of the middles of ``count`` equal shares, [count]; not to be written to."""
    return normal_quantile((np.arange(count) + 0.5) / count)


def _ratio(polynomials: tuple[tuple[float, ...], tuple[float, ...]], r: F64) -> F64:
    above, below = polynomials
    return np.asarray(np.polyval(above, r) / np.polyval(below, r))


def chi_square_quantile(p: ArrayLike, degrees: float) -> F64:
    """Wilson and Hilferty, PNAS 17, 1931: the cube root of chi2 / k is nearly normal; within 3% for k >= 4 and p in 3 to 97%."""
    spread = 2.0 / (9.0 * degrees)
    return np.asarray(degrees * (1.0 - spread + normal_quantile(p) * math.sqrt(spread)) ** 3)
