"""The index file (``.idx``) of a Megatron-LM indexed dataset: document lengths without reading a token.

Layout, little endian: magic ``MMIDIDX\\0\\0`` (9 bytes), version u64 = 1, dtype code u8, sequence count u64,
document count u64, int32 sequence lengths, int64 sequence pointers, int64 document indices (the first
sequence of each document, then the sequence count).
Source: Megatron-LM, megatron/core/datasets/indexed_dataset.py.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np

from autodeploy.errors import InputError
from autodeploy.files import read_bytes

LARGEST_BYTES = 4 * 2**30
MAGIC = b"MMIDIDX\x00\x00"
_HEADER = struct.Struct("<9sQBQQ")


def read_idx_lengths(path: Path) -> np.ndarray:
    """Tokens of each document, int64 [D]: the sum of its sequences (which are one to one in a plain corpus)."""
    content = read_bytes(path, "a Megatron index file", LARGEST_BYTES)
    sequences, documents = _read_header(content, path)
    needed = _HEADER.size + 12 * sequences + 8 * documents
    if len(content) < needed:
        raise InputError(str(path), f"{len(content)} bytes", f"at least {needed} bytes by its header", "copy it again")
    lengths = np.frombuffer(content, dtype="<i4", count=sequences, offset=_HEADER.size).astype(np.int64)
    if documents == 0:
        return lengths
    starts = np.frombuffer(content, dtype="<i8", count=documents, offset=_HEADER.size + 12 * sequences)
    if starts[0] != 0 or starts[-1] != sequences or np.any(np.diff(starts) < 0):
        raise InputError(f"{path}: document indices", starts[[0, -1]].tolist(), f"rising from 0 to {sequences}")
    cumulative = np.concatenate([[0], np.cumsum(lengths)])
    per_document = np.diff(cumulative[starts])
    return per_document[np.diff(starts) > 0]


def _read_header(content: bytes, path: Path) -> tuple[int, int]:
    if len(content) < _HEADER.size or not content.startswith(MAGIC):
        raise InputError(str(path), content[:9], "a Megatron index file (magic MMIDIDX)", "give the .idx, not the .bin")
    _, version, _, sequences, documents = _HEADER.unpack_from(content)
    if version != 1:
        raise InputError(f"{path}: version", version, "1")
    return sequences, documents
