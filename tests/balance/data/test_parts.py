"""Packing, cost fit, readers, gradient notes."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autodeploy.balance.data import SampleCost, first_fit_decreasing, fit_sample_cost, gradient_effect, read_lengths
from autodeploy.balance.data.cost import read_timings, sample_cost_from_flop
from autodeploy.balance.data.lengths import split_overlong
from autodeploy.errors import InputError


def _plain_first_fit_decreasing(lengths: np.ndarray, capacity: int) -> np.ndarray:
    free: list[int] = []
    result = np.empty(lengths.size, dtype=np.int64)
    for document in np.argsort(-lengths, kind="stable"):
        fits = [i for i, room in enumerate(free) if room >= lengths[document]]
        index = fits[0] if fits else len(free)
        if not fits:
            free.append(capacity)
        free[index] -= int(lengths[document])
        result[document] = index
    return result


@given(st.lists(st.integers(1, 50), min_size=1, max_size=120), st.integers(50, 70))
@settings(max_examples=150, deadline=None)
def test_packing_equals_the_textbook_loop(lengths, capacity):
    values = np.array(lengths)
    assert np.array_equal(first_fit_decreasing(values, capacity), _plain_first_fit_decreasing(values, capacity))


@given(st.lists(st.integers(1, 100), min_size=1, max_size=40), st.integers(1, 30))
def test_split_loses_no_token(lengths, limit):
    pieces, source = split_overlong(np.array(lengths), limit)
    assert pieces.max() <= limit and pieces.min() >= 1
    assert np.array_equal(np.bincount(source, weights=pieces), lengths)


def test_fit_recovers_rates():
    tokens = np.array([100.0, 1000, 4000, 8000, 8000])
    squares = np.array([1e4, 1e5, 1.6e7, 6.4e7, 8e6])
    fitted = fit_sample_cost(tokens, squares, 2e-6 * tokens + 3e-10 * squares + 1e-4)
    assert fitted.alpha_s_per_token == pytest.approx(2e-6, rel=1e-6)
    assert fitted.beta_s_per_token2 == pytest.approx(3e-10, rel=1e-6)
    assert fitted.gamma_s == pytest.approx(1e-4, rel=1e-6) and fitted.fit_error_frac < 1e-9


def test_fit_refuses_what_it_cannot_tell():
    same = np.full(5, 100.0)
    with pytest.raises(InputError, match="different lengths"):
        fit_sample_cost(same, same**2, same)
    with pytest.raises(InputError, match="seconds > 0"):
        fit_sample_cost(np.array([1.0, 2, 3]), np.array([1.0, 4, 9]), np.array([1.0, np.nan, 1]))


def test_rates_are_checked():
    with pytest.raises(InputError, match="alpha"):
        SampleCost(alpha_s_per_token=-1.0)
    cost = sample_cost_from_flop(flop_per_token=6e9, attention_flop_per_token2=3e3, flop_per_s=3e14)
    assert cost.seconds(np.array([1000]), np.array([1_000_000]))[0] == pytest.approx((6e12 + 3e9) / 3e14)


def _write_idx(path, sequences, documents, version=1):
    body = struct.pack("<9sQBQQ", b"MMIDIDX\x00\x00", version, 8, len(sequences), len(documents))
    body += np.array(sequences, "<i4").tobytes() + np.zeros(len(sequences), "<i8").tobytes()
    path.write_bytes(body + np.array(documents, "<i8").tobytes())


def test_every_format_reads_the_same(tmp_path):
    lengths = np.array([7, 3, 12])
    (tmp_path / "a.txt").write_text("7\n3 12\n")
    (tmp_path / "a.csv").write_text("name,tokens\nx,7\ny,3\nz,12\n")
    (tmp_path / "bare.csv").write_text("7\n3\n12\n")
    np.save(tmp_path / "a.npy", lengths)
    np.savez(tmp_path / "a.npz", lengths=lengths.astype(np.uint32), domain=np.zeros(3))
    _write_idx(tmp_path / "a.idx", [7, 3, 5, 7], [0, 1, 2, 4])
    for name in ("a.txt", "a.csv", "bare.csv", "a.npy", "a.npz", "a.idx"):
        assert read_lengths(tmp_path / name).tolist() == [7, 3, 12], name


def test_bad_files_are_named(tmp_path):
    _write_idx(tmp_path / "v2.idx", [7], [0, 1], version=2)
    (tmp_path / "cut.idx").write_bytes((tmp_path / "v2.idx").read_bytes()[:20])
    (tmp_path / "bin.idx").write_bytes(b"not an index, surely, this is 40 bytes..")
    (tmp_path / "word.txt").write_text("7 seven")
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "two.csv").write_text("a,b\n1,2\n")
    (tmp_path / "broken.npy").write_bytes(b"123")
    for name, word in (
        ("v2.idx", "version"),
        ("cut.idx", "magic"),
        ("bin.idx", "magic"),
        ("word.txt", "seven"),
        ("empty.txt", "empty"),
        ("two.csv", "--column"),
        ("broken.npy", "numpy array"),
        ("none.txt", "exists"),
    ):
        with pytest.raises(InputError, match=word):
            read_lengths(tmp_path / name)


def test_timings(tmp_path):
    (tmp_path / "t.csv").write_text("length,seconds\n10,1\n20,2.5\n")
    tokens, squares, seconds = read_timings(tmp_path / "t.csv")
    assert (tokens.tolist(), squares.tolist(), seconds.tolist()) == ([10, 20], [100, 400], [1, 2.5])
    (tmp_path / "bad.csv").write_text("length,ms\n10,1\n")
    with pytest.raises(InputError, match="seconds"):
        read_timings(tmp_path / "bad.csv")


def test_gradient_notes():
    assert gradient_effect("global_token", "global", "dropless").unchanged
    effect = gradient_effect("micro_batch", "micro_batch", "micro_batch")
    assert not effect.unchanged and len(effect.changes) == 3
    with pytest.raises(InputError, match="global_token"):
        gradient_effect("per-token")
