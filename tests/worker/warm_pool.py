"""`python warm_pool.py FOLDER SETS MEMORY_BYTES`: a pool of zygotes in a process of its own, as a worker has it."""

import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from worker.processes import adopt_orphans
from worker.warm.pool import Pool


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    adopt_orphans()  # and never look at them: an init that is slow to reap
    pool = Pool(Path(sys.argv[1]), sys.argv[2].split(","), memory_bytes=int(sys.argv[3]))
    while True:
        pool.look()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
