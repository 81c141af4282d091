# A GPU host: Celery worker, supervisors, training libraries. No chat libraries.
#   docker build -f deploy/worker.Dockerfile -t trainyard-worker .
#
# Why not an nvidia/cuda base: torch's wheels bring the CUDA libraries they were built with, so those of the base would
# lie beside them unused (gigabytes), and its Ubuntu has no Python 3.11. The driver comes from the host in either case,
# through the NVIDIA container toolkit. Without a GPU the same image trains on CPUs.
FROM python:3.11-slim-bookworm

# tini is process 1: supervisors are detached on purpose, and somebody has to reap them.
# bubblewrap is the sandbox of every step. libgomp1 is what lightgbm's wheel expects of the system.
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap libgomp1 tini \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONUNBUFFERED=1

# The dependencies first, without our code: this layer has the gigabytes and stays while only our code changes.
WORKDIR /src
COPY pyproject.toml requirements.lock LICENSE ./
RUN pip install -c requirements.lock '.[worker]'

# `bot` is left out: nothing of it runs here.
COPY agent agent
COPY trainyard trainyard
COPY worker worker
RUN pip install --no-deps --force-reinstall .

# The same number in both images, so that this one may read what the bot wrote into a shared volume.
RUN useradd --system --uid 10001 --home-dir /var/lib/trainyard --create-home --shell /usr/sbin/nologin trainyard \
    && install -d -o trainyard -g trainyard /run/trainyard
ENV TRAINYARD_HOME=/var/lib/trainyard \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER trainyard
WORKDIR /var/lib/trainyard

HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 CMD ["python", "-m", "worker.alive"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "-m", "worker"]
