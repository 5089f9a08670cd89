"""Play many stories: `python tests/simulation --client consume --seeds 10000`."""

import argparse
import random
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))

import play
import play_consumer
import story
import story_of_reading
from stage import Broken, Seen

CLIENTS: dict[str, Callable[[random.Random], Seen]] = {
    "produce": lambda choose: play.play(story.draw(choose)),
    "consume": lambda choose: play_consumer.play(story_of_reading.draw(choose)),
}


def _play(client: str, seed: int) -> Seen | str:
    try:
        return CLIENTS[client](random.Random(seed))
    except Broken as broken:
        return str(broken)


def _play_all(client: str, options: argparse.Namespace) -> int:
    """Returns how many stories broke something."""
    seeds = range(options.first, options.first + options.seeds)
    began, seen, failures = time.monotonic(), Seen(), 0
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(partial(_play, client), seeds, chunksize=10)
        for seed, result in zip(seeds, results, strict=True):
            if isinstance(result, Seen):
                seen.add(result)
                continue
            failures += 1
            print(f"SEED {seed} of {client}: {result}\n", flush=True)
            if failures >= options.failures:
                pool.shutdown(cancel_futures=True)
                break
    took_s = time.monotonic() - began
    print(f"{client}: {len(seeds)} seeds, {failures} broken, {took_s:.0f} s\n{seen}")
    return failures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=[*CLIENTS, "both"], default="both")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    options = parser.parse_args()
    clients = CLIENTS if options.client == "both" else [options.client]
    raise SystemExit(sum(_play_all(client, options) for client in clients) > 0)


if __name__ == "__main__":
    main()
