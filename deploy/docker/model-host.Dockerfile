# syntax=docker/dockerfile:1
# The model host: the engine and torch, no Django, no secrets, and no network while it runs.
# Not tried by the tests: there is no Docker where they run.
# For the CPU or for CUDA:
#     docker build -f deploy/docker/model-host.Dockerfile --target cpu  -t stoa/model-host:1.0.0-cpu .
#     docker build -f deploy/docker/model-host.Dockerfile --target cuda -t stoa/model-host:1.0.0-cuda .

FROM python:3.11.14-slim-bookworm AS python
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
COPY requirements /requirements

# torch first and alone, so that no other package pulls another build.
FROM python AS packages-cpu
RUN /opt/venv/bin/pip install --index-url https://download.pytorch.org/whl/cpu \
        "$(grep '^torch==' /requirements/constraints.txt)" \
    && /opt/venv/bin/pip install -r /requirements/engine.txt

FROM python AS packages-cuda
RUN /opt/venv/bin/pip install "$(grep '^torch==' /requirements/constraints.txt)" \
    && /opt/venv/bin/pip install -r /requirements/engine.txt

# g++ because the host compiles its kernels for its processor, once, into the volume of --compiled-dir.
FROM python:3.11.14-slim-bookworm AS host
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 stoa \
    && useradd --uid 10001 --gid stoa --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin stoa \
    && install -d -o stoa -g stoa -m 0700 /run/stoa /data /data/compiled /data/models
WORKDIR /srv/stoa
COPY inference/__init__.py ./inference/__init__.py
COPY inference/engine ./inference/engine
# The built-in models, in the folder that the web process names.
COPY inference/builtin/stoa-describer ./inference/builtin/stoa-describer
COPY inference/builtin/stoa-encoder ./inference/builtin/stoa-encoder
COPY inference/builtin/stoa-writer ./inference/builtin/stoa-writer
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    HF_HUB_OFFLINE=1
RUN python -m compileall -q inference
USER stoa
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=10s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import asyncio, pathlib, inference.engine as e; asyncio.run(e.HostClient(pathlib.Path('/run/stoa/models')).models())"]
ENTRYPOINT ["tini", "--", "python", "-m", "inference.engine.host", "--run-dir", "/run/stoa/models", "--compiled-dir", "/data/compiled"]

FROM host AS cuda
COPY --from=packages-cuda /opt/venv /opt/venv
ENV NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM host AS cpu
COPY --from=packages-cpu /opt/venv /opt/venv
