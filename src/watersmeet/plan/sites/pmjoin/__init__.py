"""PMJoin (DASFAA 2006): streams are partitioned by value, each partition joined where it costs least."""

from watersmeet.plan.sites.pmjoin.pmjoin import PmjoinPlan, plan_centralized, plan_distributed, plan_pmjoin

__all__ = ["PmjoinPlan", "plan_centralized", "plan_distributed", "plan_pmjoin"]
