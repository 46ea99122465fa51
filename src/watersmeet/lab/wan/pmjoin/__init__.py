"""PMJoin's plans at their sites (Zhou, Yan, Yu and Zhou, DASFAA 2006)."""

from watersmeet.lab.wan.pmjoin.network import PmjoinNetwork, PmjoinRun

__all__ = ["PmjoinNetwork", "PmjoinRun"]
