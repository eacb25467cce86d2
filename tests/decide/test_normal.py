"""The normal distribution against the standard library's."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from autodeploy.decide.normal import normal_cdf, normal_middles, normal_quantile


@given(st.floats(min_value=1e-300, max_value=1.0, exclude_max=True))
def test_the_quantile_is_the_standard_library_s(p: float) -> None:
    assert float(normal_quantile(p)) == pytest.approx(NormalDist().inv_cdf(p), rel=1e-14, abs=1e-300)


def test_quantile_and_distribution_are_inverse_in_any_shape() -> None:
    p = np.linspace(0.001, 0.999, 30).reshape(5, 6)
    np.testing.assert_allclose(normal_cdf(normal_quantile(p)), p, rtol=1e-12)


def test_middles_by_hand() -> None:
    np.testing.assert_allclose(normal_middles(2), [-0.6744897501960817, 0.6744897501960817], rtol=1e-15)
