"""Arrays as one blob for the store, and back. A blob that holds something else is an error, not a crash."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headwater.errors import StrategyError

# NotImplementedError is what zipfile says of a compression that it does not know.
_DAMAGE_ERRORS = (ValueError, KeyError, EOFError, OSError, NotImplementedError, zipfile.BadZipFile, zlib.error)


def pack_arrays(arrays: Mapping[str, NDArray[Any]], *, compressed: bool = False) -> bytes:
    packed = io.BytesIO()
    save: Any = np.savez_compressed if compressed else np.savez
    save(packed, **arrays)
    return packed.getvalue()


def unpack_arrays(blob: bytes) -> dict[str, NDArray[Any]]:
    """The arrays; StrategyError where the blob is damaged.

    >>> unpack_arrays(pack_arrays({"due": np.arange(3)}))["due"].tolist()
    [0, 1, 2]
    """
    try:
        with np.load(io.BytesIO(blob), allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}
    except (*_DAMAGE_ERRORS, AttributeError) as error:  # a lone array is no archive and has no files
        raise StrategyError(f"The saved state is damaged ({error}): start it afresh.") from error
