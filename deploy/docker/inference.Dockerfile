# syntax=docker/dockerfile:1
# The model server without torch: its web process, its worker and its migrations are this image with other commands.
# Models run in the image of model-host.Dockerfile, over sockets in a shared folder: STOA_RUN_DIR.
# Not tried by the tests: there is no Docker where they run.
#     docker build -f deploy/docker/inference.Dockerfile -t stoa/inference:1.0.0 .

FROM python:3.11.14-slim-bookworm AS packages
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/venv
COPY requirements /requirements
RUN /opt/venv/bin/pip install -r /requirements/server.txt

FROM python:3.11.14-slim-bookworm
RUN apt-get update \
    && apt-get install -y --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 10001 stoa \
    && useradd --uid 10001 --gid stoa --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin stoa \
    && install -d -o stoa -g stoa -m 0700 /srv/stoa/var /run/stoa \
    && install -d -o stoa -g stoa -m 0700 /data /data/files /data/metrics /data/models
COPY --from=packages /opt/venv /opt/venv
WORKDIR /srv/stoa
COPY manage_inference.py ./
COPY shared ./shared
COPY inference ./inference
# A host in this image could load no model and would occupy the folder of the real one: it starts none.
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    STOA_HOME=/srv/stoa \
    STOA_START_HOST=false \
    STOA_RUN_DIR=/run/stoa/models \
    STOA_MODELS_DIR=/data/models \
    STOA_FILES_DIR=/data/files \
    STOA_METRICS_DIR=/data/metrics
RUN python -m compileall -q inference shared
USER stoa
# The static files are part of the image. The keys are for this step only: they are not stored, and nothing is signed.
RUN SECRET_KEY=of-this-step STOA_JWT_KEY=of-this-step \
    DJANGO_SETTINGS_MODULE=inference.config.settings.base \
    python manage_inference.py collectstatic --noinput -v0
ENV DJANGO_SETTINGS_MODULE=inference.config.settings.production
EXPOSE 8001
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8001/readyz', timeout=4)"]
ENTRYPOINT ["tini", "--"]
CMD ["python", "manage_inference.py", "serve", "--host", "0.0.0.0", "--port", "8001", "--drain", "60"]
