"""What a step of a join did, for the metrics."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class StepCounts:
    """What one step did, for the metrics."""

    late: dict[str, int] = field(default_factory=dict)
    probes: int = 0
    answers: int = 0
    shed: dict[str, int] = field(default_factory=dict)
    missed: float = 0.0  # answers, as estimated, for want of tuples shed

    def add(self, other: StepCounts) -> None:
        """Counts another step in."""
        for own, theirs in ((self.late, other.late), (self.shed, other.shed)):
            for alias, count in theirs.items():
                own[alias] = own.get(alias, 0) + count
        self.probes += other.probes
        self.answers += other.answers
        self.missed += other.missed
