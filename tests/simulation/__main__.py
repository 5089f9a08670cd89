"""Play many stories: `python tests/simulation --seeds 10000`."""

import argparse
import random
import time
from concurrent.futures import ProcessPoolExecutor

from play import play
from stage import Broken, Seen
from story import draw


def _play(seed: int) -> Seen | str:
    try:
        return play(draw(random.Random(seed)))
    except Broken as broken:
        return str(broken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    options = parser.parse_args()
    seeds = range(options.first, options.first + options.seeds)
    began, seen, failures = time.monotonic(), Seen(), 0
    with ProcessPoolExecutor(options.processes) as pool:
        for seed, result in zip(seeds, pool.map(_play, seeds, chunksize=10), strict=True):
            if isinstance(result, Seen):
                seen.add(result)
                continue
            failures += 1
            print(f"SEED {seed}: {result}\n", flush=True)
            if failures >= options.failures:
                pool.shutdown(cancel_futures=True)
                break
    print(f"{len(seeds)} seeds, {failures} broken, {time.monotonic() - began:.0f} s")
    print(seen)
    raise SystemExit(bool(failures))


if __name__ == "__main__":
    main()
