"""How a query reaches every node of the ring: by a tree, by gossip over fingers, or by both.

After Palma, Akbarinia, Pacitti and Valduriez: the tree is DHTJoin's (extended version, section 3.1), which
takes it from El-Ansary et al.; gossip on the finger table is Euro-Par 2008, sections 2.3, 3.2 and 3.3; the
tree complemented by periodic gossip is the extended version, section 4.1.

**Tree.** A node covers an arc of the ring, from itself to a limit. It sends the query to each finger
inside the arc, and with it the arc from there to the next finger. Every node gets the query exactly once:
n - 1 messages. The way to a node is that of Chord's lookups, so the depth is log2 n on a full ring, and on a
ring of random identifiers no more than the longest lookup takes.

**Gossip.** A node that gets the query for the first time sends it to `fanout` nodes of its local list, which
is its successor, its predecessor and its fingers, but never back. Successor and predecessor are always among
them, which makes the graph strongly connected and the hit ratio 100%.

    2       successor and predecessor       N/2 hops, 2 redundant messages
    m/2     and random fingers, half of m   m is the number of fingers, log2 N
    m       the whole local list
    m_opt   the whole local list without the nodes that its senders have sent to already

Where we differ: Euro-Par section 3.3 has a node consider the intersection of its own list and the lists that
came with the messages; what can save messages is to leave the intersection out, so that is how we read it.
A node receives the query from several others at once (in a full ring, from as many as its distance has binary
ones), and forwards it when all have arrived, at the end of the hop. This delays no node: those left out were
sent to in the same hop or before.

**Periodic gossip.** After the tree, in every round each node that has the query passes it to one random
neighbour it does not know to have been chosen before, so that what a failed node cut off is reached from the
side. It ends when no node has a neighbour left to send to.

Example, ring of 8 nodes, query at 0: the tree sends to 1 for [1, 2), 2 for [2, 4) and 4 for [4, 0); 2 sends
to 3, 4 to 5 and 6, 6 to 7. Seven messages, three hops.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

from watersmeet.errors import ConfigurationError
from watersmeet.lab.overlay.chord.living_ring import LookupFailed

Fanout = Literal["2", "m/2", "m", "m_opt"]
FANOUTS: tuple[Fanout, ...] = get_args(Fanout)


class Links(Protocol):
    """A node's view of the ring; a link may lead to a node that has failed."""

    bits: int

    def id_of(self, node: int) -> int: ...

    def is_alive(self, node: int) -> bool: ...

    def successor(self, node: int) -> int: ...

    def predecessor(self, node: int) -> int: ...

    def fingers(self, node: int) -> list[int]: ...


@dataclass(frozen=True)
class Share:
    """A part of the tree: the node that covers the arc from itself up to, not including, the limit."""

    node: int
    limit: int  # an identifier


def tree_shares(own_id: int, limit: int, fingers: Iterable[tuple[int, int]], bits: int) -> list[Share]:
    """The nodes a node sends a query to, given its arc and its fingers as (node, identifier).

    The root covers the whole circle: its limit is its own identifier.

    >>> tree_shares(4, 0, [(5, 5), (6, 6), (0, 0)], bits=3)
    [Share(node=5, limit=6), Share(node=6, limit=0)]
    """
    circle = 1 << bits
    span = (limit - own_id) % circle or circle
    ahead = sorted(((other_id - own_id) % circle, node) for node, other_id in fingers)
    inside = [(distance, node) for distance, node in ahead if 0 < distance < span]
    ends = [*(distance for distance, _ in inside[1:]), span]
    return [Share(node, (own_id + end) % circle) for (_, node), end in zip(inside, ends, strict=False)]


def local_list(links: Links, node: int) -> list[int]:
    """A node's successor, predecessor and fingers, each once."""
    known = [links.predecessor(node), *links.fingers(node)]
    with suppress(LookupFailed):  # a node that has lost its successors still knows others
        known.insert(0, links.successor(node))
    return [other for other in dict.fromkeys(known) if other != node]


def gossip_targets(
    fanout: Fanout, neighbours: Sequence[int], received: Iterable[Received], rng: random.Random
) -> list[int]:
    """The nodes a node gossips to, given its local list (ring neighbours first) and the gossip received.

    >>> gossip_targets("2", [5, 3, 6, 8], [Received(3)], random.Random(1))
    [5]
    """
    if fanout not in FANOUTS:
        raise ConfigurationError(f"there is no fanout {fanout!r}; use one of {', '.join(FANOUTS)}")
    received = list(received)
    if fanout == "2":
        chosen = list(neighbours[:2])
    elif fanout == "m/2":
        size = max(2, len(neighbours) // 2)
        chosen = [*neighbours[:2], *rng.sample(neighbours[2:], max(0, min(size, len(neighbours)) - 2))]
    else:
        chosen = list(neighbours)
    reached = {message.sender for message in received}
    if fanout == "m_opt":
        reached.update(node for message in received for node in message.sent_to)
    return [node for node in chosen if node not in reached]


@dataclass(frozen=True)
class Received:
    """A gossip message as its receiver sees it: who sent it, and the sender's own gossip targets."""

    sender: int
    sent_to: tuple[int, ...] = ()


@dataclass
class Spread:
    """The course of a dissemination: the hop at which each node was reached, and the messages it took."""

    root: int
    hop_of: dict[int, int] = field(default_factory=dict)
    messages: int = 0
    rounds: int = 0  # of periodic gossip

    @property
    def hops(self) -> int:
        """Dissemination speed: the hops until the last node was reached."""
        return max(self.hop_of.values())

    @property
    def redundant(self) -> int:
        """Message overhead: the messages to nodes that had the query already, or had failed."""
        return self.messages - (len(self.hop_of) - 1)

    def hit_ratio(self, alive: Iterable[int]) -> float:
        """The share of the living nodes that were reached."""
        living = list(alive)
        return sum(node in self.hop_of for node in living) / len(living)

    def not_reached(self, alive: Iterable[int]) -> list[int]:
        """How many living nodes had not been reached after 0, 1, 2, ... hops."""
        hops = [self.hop_of.get(node) for node in alive]
        return [sum(hop is None or hop > limit for hop in hops) for limit in range(self.hops + 1)]


def spread_by_tree(links: Links, root: int) -> Spread:
    """Disseminate along the tree; below a failed node nobody is reached."""
    spread = Spread(root, {root: 0})
    frontier = [Share(root, links.id_of(root))]
    while frontier:
        following = []
        for share in frontier:
            fingers = [(node, links.id_of(node)) for node in links.fingers(share.node)]
            for child in tree_shares(links.id_of(share.node), share.limit, fingers, links.bits):
                spread.messages += 1
                if links.is_alive(child.node) and child.node not in spread.hop_of:
                    spread.hop_of[child.node] = spread.hop_of[share.node] + 1
                    following.append(child)
        frontier = following
    return spread


def spread_by_gossip(links: Links, root: int, fanout: Fanout, rng: random.Random) -> Spread:
    """Disseminate by gossip, one hop at a time: all messages of a hop arrive before the next is sent."""
    spread = Spread(root, {root: 0})
    forwarding: dict[int, list[Received]] = {root: []}
    hop = 0
    while forwarding:
        hop += 1
        arriving: dict[int, list[Received]] = {}
        for node, received in forwarding.items():
            neighbours = local_list(links, node)
            message = Received(node, tuple(neighbours))
            for target in gossip_targets(fanout, neighbours, received, rng):
                spread.messages += 1
                if links.is_alive(target) and target not in spread.hop_of:
                    arriving.setdefault(target, []).append(message)
        spread.hop_of.update(dict.fromkeys(arriving, hop))
        forwarding = arriving
    return spread


def gossip_choice(view: Sequence[int], chosen: set[int], rng: random.Random) -> int | None:
    """The neighbour a node sends to in one round of periodic gossip; None when it knows all to be reached."""
    left = [node for node in view if node not in chosen]
    return left[rng.randrange(len(left))] if left else None


def complete_by_gossip(
    links: Links,
    spread: Spread,
    view_of: Callable[[int], Sequence[int]],
    rng: random.Random,
    max_rounds: int | None = None,
) -> Spread:
    """Periodic gossip after a tree: until no node has a neighbour left to send to, or for some rounds.

    A message carries whom its sender knows to have been chosen (the paper's L_d), and so does its receiver
    from then on.
    """
    chosen: dict[int, set[int]] = {node: {node} for node in spread.hop_of}
    active = list(chosen)
    while active and (max_rounds is None or spread.rounds < max_rounds):
        spread.rounds += 1
        still, new = [], []
        for node in active:
            target = gossip_choice(view_of(node), chosen[node], rng)
            if target is None:
                continue
            still.append(node)
            chosen[node].add(target)
            spread.messages += 1
            if not links.is_alive(target):
                continue
            if target not in spread.hop_of:
                spread.hop_of[target] = spread.hop_of[node] + 1
                chosen[target] = {target, *chosen[node]}
                new.append(target)
            else:
                chosen[target].add(node)
        active = still + new
    return spread
