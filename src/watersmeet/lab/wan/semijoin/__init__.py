"""Semijoin plans at their sites (Tran and Lee, 2010)."""

from watersmeet.lab.wan.semijoin.ledger import Ledger
from watersmeet.lab.wan.semijoin.run import SemijoinRun, Settings, execute

__all__ = ["Ledger", "SemijoinRun", "Settings", "execute"]
