"""A lease over a folder in memory with a scripted clock: every pause, at every operation, of every action.

What is promised: at no moment do two holders find that they may go on, and nothing dead blocks for long.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from watersmeet.errors import ConfigurationError
from watersmeet.spark.jobs.lease import (
    PATIENCE,
    RENEW_S,
    Holder,
    Lease,
    LeaseLostError,
    Seen,
    check,
    release,
    renew,
    take,
)
from watersmeet.spark.jobs.run_lock import LEASE, KeptLease

DEAD_S = PATIENCE * RENEW_S


@dataclass
class World:
    """A folder and a clock; `pause` is called before an operation, and may do anything else meanwhile."""

    texts: dict[str, str] = field(default_factory=dict)
    now: float = 0.0
    pause: Callable[[], None] = lambda: None
    exclusive: bool = True  # whether creation is refused where a file is there, at the very moment of it

    def names(self, folder: str) -> list[str]:
        self.pause()
        return [path.removeprefix(f"{folder}/") for path in self.texts]

    def read(self, path: str) -> str | None:
        self.pause()
        return self.texts.get(path)

    def create(self, path: str, text: str) -> bool:
        if not self.exclusive and path in self.texts:
            return False
        self.pause()
        if self.exclusive and path in self.texts:
            return False
        self.texts[path] = text
        return True

    def remove(self, path: str) -> None:
        self.pause()
        self.texts.pop(path, None)


@dataclass
class Actor:
    """Someone who wants the lease, looks on, renews and gives it back."""

    world: World
    name: str
    seen: Seen | None = None
    lease: Lease | None = None

    @property
    def holder(self) -> Holder:
        return Holder("host", 1, "then", self.name)

    def take(self) -> None:
        if self.lease is None:
            found = take(self.world, LEASE, self.holder, self.seen, lambda: self.world.now)
            self.lease = found if isinstance(found, Lease) else None
            self.seen = None if isinstance(found, Lease) else found

    def renew(self) -> None:
        if self.lease is not None:
            try:
                self.lease = renew(self.world, self.lease, self.world.now)
            except LeaseLostError:
                self.lease = None

    def release(self) -> None:
        if self.lease is not None:
            release(self.world, self.lease)
            self.lease = None

    def may_go_on(self) -> bool:
        if self.lease is None:
            return False
        try:
            check(self.world, self.lease, self.world.now)
        except LeaseLostError:
            return False
        return True


def take_over(actor: Actor) -> None:
    """Looks on for as long as it takes, alone: it must get the lease, and in bounded time."""
    began = actor.world.now
    actor.take()
    while actor.lease is None:
        actor.world.now += RENEW_S / 2
        actor.take()
    assert actor.world.now - began <= DEAD_S + RENEW_S


def wait(world: World, duration_s: float) -> None:
    world.now += duration_s


@dataclass
class PauseAt:
    """Lets something else happen before the operation of this number, counted from 0, and only once."""

    step: int
    meanwhile: Callable[[], None]
    world: World
    steps: int = 0

    def __call__(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.step:
            self.world.pause = lambda: None
            self.meanwhile()
            self.world.pause = self


def meanwhiles(world: World, b: Actor, c: Actor) -> Iterator[Callable[[], None]]:
    """What others may do while one is suspended; a holder that is overtaken has been so for long."""
    yield lambda: wait(world, DEAD_S + 1)
    yield lambda: (b.take(), wait(world, RENEW_S), b.take())  # type: ignore[func-returns-value]
    yield lambda: take_over(b)
    yield lambda: (take_over(b), b.renew(), b.renew())  # type: ignore[func-returns-value]
    yield lambda: (take_over(b), b.release())  # type: ignore[func-returns-value]
    yield lambda: (take_over(b), b.release(), c.take())  # type: ignore[func-returns-value]
    yield lambda: (take_over(b), b.release(), c.take(), c.release(), b.take())  # type: ignore[func-returns-value]
    yield lambda: (take_over(b), take_over(c), b.renew())  # type: ignore[func-returns-value]


ACTIONS: dict[str, Callable[[Actor], None]] = {
    "take": Actor.take,
    "renew": Actor.renew,
    "release": Actor.release,
}


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize("history", ["new", "released", "abandoned"])
def test_no_pause_lets_two_go_on_nor_blocks_the_next(action: str, history: str) -> None:
    tried = 0
    for number, step in itertools.product(range(8), range(30)):
        world = World()
        a, b, c, d = (Actor(world, name) for name in "abcd")
        if history != "new":
            d.take()
            if history == "released":
                d.release()
        if action != "take":
            take_over(a)
        elif history == "abandoned":  # about to take over from one that is dead
            a.take()
            wait(world, DEAD_S)
        pause = PauseAt(step, list(meanwhiles(world, b, c))[number], world)
        world.pause = pause
        ACTIONS[action](a)
        world.pause = lambda: None
        if pause.steps <= step:
            continue  # the action has no such operation
        tried += 1
        going = [actor.name for actor in (a, b, c, d) if actor.may_go_on()]
        assert len(going) <= 1, (number, step, going)
        for actor in (a, b, c, d):
            actor.renew()
        assert len([actor for actor in (a, b, c, d) if actor.may_go_on()]) <= 1, (number, step)
        take_over(Actor(world, "next"))  # nobody renews any more
        assert not any(actor.may_go_on() for actor in (a, b, c, d))
    assert tried > 15


@dataclass
class History:
    """Actions at random, each of which may be suspended while others act."""

    rng: random.Random
    world: World = field(default_factory=World)
    suspended: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.actors = [Actor(self.world, name) for name in "abc"]

    def act(self, depth: int = 0) -> None:
        actor = self.rng.choice([each for each in self.actors if each.name not in self.suspended])
        wait(self.world, self.rng.choice((0, 1, RENEW_S, RENEW_S, DEAD_S)))
        self.suspended.add(actor.name)
        if depth < 2:
            self.world.pause = PauseAt(self.rng.randrange(12), lambda: self.act(depth + 1), self.world)
        self.rng.choice((Actor.take, Actor.take, Actor.renew, Actor.renew, Actor.release))(actor)
        self.world.pause = lambda: None
        self.suspended.discard(actor.name)


def test_random_histories_never_have_two_that_go_on(long_mode: bool) -> None:
    taken = 0
    for seed in range(20_000 if long_mode else 300):
        history = History(random.Random(seed))
        for _ in range(40):
            history.act()
            going = [actor.name for actor in history.actors if actor.may_go_on()]
            assert len(going) <= 1, f"seed {seed}: {going}"
            taken += len(going)
    assert taken > 1000


def test_a_holder_that_cannot_renew_stops_before_another_takes_over() -> None:
    world = World()
    a, b = Actor(world, "a"), Actor(world, "b")
    a.take()
    b.take()
    while b.lease is None:
        assert a.may_go_on() or world.now > 0
        wait(world, 1)
        b.take()
        if b.lease is not None:
            assert not a.may_go_on()
        elif world.now < DEAD_S - RENEW_S:
            assert a.may_go_on()
    assert world.now == DEAD_S


def test_a_holder_is_not_overtaken_because_the_onlooker_reads_slowly() -> None:
    """Its first look takes so long that the holder renews meanwhile: silence is counted from then on."""
    world = World()
    a, b = Actor(world, "a"), Actor(world, "b")
    a.take()

    def renews_late() -> None:
        wait(world, DEAD_S - 2 * RENEW_S)
        a.renew()

    world.pause = PauseAt(0, renews_late, world)
    b.take()
    world.pause = lambda: None
    for _ in range(PATIENCE - 1):  # as long as the holder may take for its next sign of life
        wait(world, RENEW_S - 0.1)
        b.take()
        assert b.lease is None
    assert a.may_go_on()
    a.renew()
    b.take()
    assert (a.may_go_on(), b.lease) == (True, None)


def test_a_term_that_has_come_and_gone_cannot_be_claimed_again() -> None:
    """Suspended just before it claims term 2, while others hold and clear away terms 2 and 3."""
    world = World()
    a, b, c, d = (Actor(world, name) for name in "abcd")
    d.take()
    a.take()
    wait(world, DEAD_S)
    world.pause = PauseAt(2, lambda: (take_over(b), b.release(), c.take()), world)  # type: ignore[func-returns-value]
    a.take()
    world.pause = lambda: None
    assert c.lease is not None
    assert (c.lease.term, a.lease) == (3, None)
    assert c.may_go_on()


def test_where_creation_is_not_exclusive_the_last_to_claim_goes_on() -> None:
    """As on object stores that look for the file first: both may have claimed, and one of them finds out."""
    overlapped = 0
    for step in range(10):
        world = World(exclusive=False)
        a, b = Actor(world, "a"), Actor(world, "b")
        world.pause = PauseAt(step, b.take, world)
        a.take()
        world.pause = lambda: None
        overlapped += a.lease is not None and b.lease is not None
        assert [actor.name for actor in (a, b) if actor.may_go_on()] in (["a"], ["b"])
    assert overlapped


def test_a_second_run_is_refused_at_the_first_sign_of_life_and_told_who_holds_it() -> None:
    world = World()
    a = Actor(world, "a")
    a.take()

    def sleep(duration_s: float) -> None:
        wait(world, duration_s)
        if world.now % RENEW_S == 0:
            a.renew()

    with pytest.raises(
        ConfigurationError, match=r"s3a://b/c is in use by process 1 on host, since then\. Only"
    ):
        KeptLease.take(world, Holder("here", 2, "now", "b"), "s3a://b/c", lambda: world.now, sleep)
    assert world.now <= 2 * RENEW_S
    assert a.may_go_on()


def test_a_run_that_has_lost_its_lease_is_told_and_says_so() -> None:
    world = World()
    kept = KeptLease.take(world, Holder("here", 2, "now", "a"), "s3a://b/c", lambda: world.now)
    stopped: list[str] = []
    kept.when_lost(lambda: stopped.append("stopped"))
    assert kept.renew()
    kept.check()
    take_over(Actor(world, "b"))
    assert not kept.renew()
    assert stopped == ["stopped"]
    with pytest.raises(
        ConfigurationError, match=r"has lost its lease on the checkpoint s3a://b/c: it could not"
    ):
        kept.check()
    kept.release()
    assert "lease.lock/free-2" not in world.texts


def test_a_file_system_that_does_not_answer_costs_the_lease_only_after_a_while() -> None:
    world = World()
    kept = KeptLease.take(world, Holder("here", 2, "now", "a"), "s3a://b/c", lambda: world.now)

    def fail() -> None:
        raise OSError("no answer")

    world.pause = fail
    for _ in range(PATIENCE - 2):
        wait(world, RENEW_S)
        assert kept.renew()
        kept.check()
    wait(world, RENEW_S)
    with pytest.raises(ConfigurationError, match="could not be renewed for 25 seconds"):
        kept.check()  # even if the thread that renews hangs
    assert not kept.renew()
    kept.release()
