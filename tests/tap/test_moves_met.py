"""Of a client: how many moved leaders it met, and how long it waited for them."""

from kipctl.client_behaviour.behaviour import Waits
from kipctl.tap.leaders import PartitionId
from kipctl.tap.moves_met import Move, MovesMet


def move(epoch: int, partition: int = 0) -> Move:
    return Move(0, PartitionId("orders", partition), 1, epoch)


def test_the_longest_wait_for_a_leader_counts_and_all_that_were_met() -> None:
    recorded: list[tuple[int, int | None]] = []
    met = MovesMet(lambda move, error_us, wait_us, not_ready: recorded.append((error_us, wait_us)))
    assert met.waits == Waits(met=0)
    met.met(move(1), 10, 100)
    assert met.waits == Waits(1, 100, 100, 100, 1)
    met.met(move(1), 20, 300)
    met.met(move(1), 30)
    met.met(move(2), 40, 200)
    met.met(move(3), 50)
    assert met.waits == Waits(2, 200, 300, 300, 3)
    assert recorded == [(10, 100), (20, 300), (40, 200), (50, None)]
