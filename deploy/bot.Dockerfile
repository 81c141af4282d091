# The bot: chat adapters, storage, charts, and LiteLLM in a process of its own. No torch, no training libraries.
#   docker build -f deploy/bot.Dockerfile -t trainyard-bot .
FROM python:3.11-slim-bookworm

# tini is process 1: it passes signals on and reaps what children leave behind.
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/*

ENV PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore \
    PYTHONUNBUFFERED=1

# The dependencies first, without our code: this layer stays as it is while only our code changes.
WORKDIR /src
COPY pyproject.toml requirements.lock LICENSE ./
RUN pip install -c requirements.lock '.[bot,llm,postgres]'

COPY agent agent
COPY bot bot
COPY charts_render charts_render
COPY trainyard trainyard
COPY worker worker
RUN pip install --no-deps --force-reinstall .

# The same number in both images, so that one may read what the other wrote into a shared volume.
# A named volume that is mounted on one of these two folders for the first time takes over their owner.
RUN useradd --system --uid 10001 --home-dir /var/lib/trainyard --create-home --shell /usr/sbin/nologin trainyard \
    && install -d -o trainyard -g trainyard /run/trainyard
ENV TRAINYARD_HOME=/var/lib/trainyard
USER trainyard
WORKDIR /var/lib/trainyard

HEALTHCHECK --interval=30s --timeout=15s --start-period=60s --retries=3 CMD ["python", "-m", "bot.alive"]
ENTRYPOINT ["tini", "--"]
CMD ["trainyard", "bot"]
