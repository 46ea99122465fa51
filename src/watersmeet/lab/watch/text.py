"""A recording as text: a line for each message, and what each node keeps at the end."""

from __future__ import annotations

from watersmeet.lab.watch.recording import Recording, Step


def to_text(recording: Recording) -> str:
    """Every event with its messages, then what each node keeps."""
    lines = [recording.title, ""]
    width = max((len(step.kind) for event in recording.events for step in event.steps), default=0)
    for number, event in enumerate(recording.events, start=1):
        lines.append(f"Event {number}: {event.title}")
        lines += [f"  {step.kind:<{width}}  {step_text(step)}" for step in event.steps] or ["  no message"]
    lines += ["", f"The ring after {recording.messages} messages:"]
    for node in recording.nodes:
        kept = recording.at_end.get(node, ())
        lines.append(f"  node {node}{':' if kept else ' keeps nothing'}")
        lines += [f"    {holding.what:<6}  {holding.text}" for holding in kept]
    return "\n".join(lines) + "\n"


def step_text(step: Step) -> str:
    """The nodes a message passed and what it said."""
    return f"{' -> '.join(map(str, step.path))}: {step.text}"
