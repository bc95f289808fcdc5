"""Array types used throughout the library."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating[Any]]
Indices32 = NDArray[np.int32]
Indices64 = NDArray[np.int64]
