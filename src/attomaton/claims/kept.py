"""Where the parts of a long figure are kept until all of it is made."""

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Checkpoint(Protocol):
    """Where parts of a long computation are kept, by name."""

    def load(self, name: str) -> Mapping[str, np.ndarray] | None:
        """What was last kept under the name, if anything was."""

    def save(self, name: str, arrays: Mapping[str, np.ndarray]) -> None:
        """Keep arrays under the name, in place of what was there."""
