"""`python warm_pool.py FOLDER SETS [KEEP_S]`: a pool of zygotes in a process of its own, as a worker has it."""

import logging
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from worker.host.processes import adopt_orphans
from worker.warm.pool import Pool, zygote_program


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    adopt_orphans()  # and never look at them: an init that is slow to reap
    keep_s = float(sys.argv[3]) if len(sys.argv) > 3 else None
    pool = Pool(Path(sys.argv[1]), {name: zygote_program(name, keep_s=keep_s) for name in sys.argv[2].split(",")})
    while True:
        pool.look()
        time.sleep(0.05)


if __name__ == "__main__":
    main()
