"""RJoin: continuous multi-way joins by rewriting queries (Idreos, Liarou and Koubarakis, EDBT 2008)."""

from watersmeet.lab.overlay.rjoin.indexing import STRATEGIES, Strategy
from watersmeet.lab.overlay.rjoin.network import RJoinNetwork, safe_settings
from watersmeet.lab.overlay.rjoin.protocol import RJoin
from watersmeet.lab.overlay.rjoin.settings import Settings

__all__ = ["STRATEGIES", "RJoin", "RJoinNetwork", "Settings", "Strategy", "safe_settings"]
