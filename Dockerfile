# The daemon alone. A service adds its plugins in an image of its own:
#   FROM inboxd
#   RUN pip install --no-cache-dir my-plugin

# A tag moves. To get the same image each time, name its digest in both lines: python:3.13-slim@sha256:…
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY inboxd inboxd
COPY migrations migrations
# The versions that were tested together.
RUN pip wheel --no-cache-dir --constraint constraints.txt --wheel-dir /wheels .

FROM python:3.13-slim
# A virtual environment that root owns: the daemon cannot change its own code.
ENV PATH=/opt/inboxd/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    python -m venv /opt/inboxd \
    && pip install --no-cache-dir --no-index --find-links /wheels inboxd
# A number, so that Kubernetes can check runAsNonRoot; an account, since libraries look it up.
RUN useradd --uid 10001 --no-create-home --shell /usr/sbin/nologin inboxd
# A volume that is mounted here first gets this owner; without one a spool goes with the container.
RUN install --directory --owner=10001 --mode=0700 /var/lib/inboxd
USER 10001

# Health and metrics for the orchestrator, without payloads. Publish the port to nobody else.
ENV INBOXD_HTTP__HOST=0.0.0.0 INBOXD_HTTP__ALLOW_REMOTE=true INBOXD_LOG__FORMAT=json
# Webhooks, of `inboxd receive`: behind a proxy that ends TLS.
ENV INBOXD_INBOUND__HTTP__HOST=0.0.0.0 INBOXD_INBOUND__HTTP__ALLOW_REMOTE=true
EXPOSE 8797 8798 8799
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s CMD ["python", "-c", \
    "import urllib.request as u; u.urlopen('http://127.0.0.1:8797/healthz', timeout=2)"]

ENTRYPOINT ["inboxd"]
CMD ["run"]
