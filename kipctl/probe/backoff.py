"""How long a client waits before it tries again (`retry.backoff.ms`, KIP-580, KIP-951): pure."""

from dataclasses import dataclass

from kipctl.probe.leadership import NO_EPOCH, LeaderDiscovery


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential backoff (KIP-580): doubles from `initial_us` to `limit_us`, with jitter.

    The jitter never exceeds the limit, and where the first wait reaches it there is none (Java's
    ExponentialBackoff).
    """

    initial_us: int
    limit_us: int
    jitter: float = 0.2

    def wait_us(self, retries: int, chance: float) -> int:
        """The wait before retry number `retries` (0 is the first); `chance` is in [0, 1)."""
        if self.initial_us >= self.limit_us:
            return self.limit_us
        wait = min(self.initial_us * 2 ** min(retries, 40), self.limit_us)
        return min(int(wait * (1 + self.jitter * (2 * chance - 1))), self.limit_us)


@dataclass(slots=True)
class Attempts:
    """How often a batch was sent, and the newest leader epoch that it was sent to, of the topic's
    `generation` that it was sent to last."""

    count: int = 0
    epoch: int = NO_EPOCH
    generation: int = 0

    def sent(self, epoch: int, generation: int = 0) -> None:
        """Count an attempt, which went to that leader epoch."""
        self.count += 1
        self.sent_to(epoch, generation)

    def sent_to(self, epoch: int, generation: int) -> None:
        """It was sent to that leader epoch; those of a topic that was made anew start again."""
        is_same = generation == self.generation
        self.epoch = max(epoch, self.epoch) if is_same else epoch
        self.generation = generation

    def backoff_us(self, known_epoch: int, drawn_us: int, always: bool) -> int:
        """How long after its error the batch has to wait, when `drawn_us` is the backoff drawn.

        Nothing once a newer leader epoch is known than the one last sent to, unless `always`.
        """
        return drawn_us if always or known_epoch <= self.epoch else 0


def retry_backoff(discovery: LeaderDiscovery, initial_us: int, limit_us: int) -> Backoff:
    """`retry.backoff.ms` and `retry.backoff.max.ms` as each arm uses them.

    Clients before KIP-951 (Java 3.6) did not let the backoff grow or jitter (KIP-580 came to the
    producer in 3.7), so neither does `baseline`.
    """
    if discovery is LeaderDiscovery.BASELINE:
        return Backoff(initial_us, initial_us)
    return Backoff(initial_us, limit_us)
