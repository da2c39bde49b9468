# The agent and the lab without torch and vLLM: see docs/containers.md.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
ARG EXTRAS=mcp,postgres,telegram,slack
WORKDIR /src
COPY . .
RUN python3 -m venv /opt/hermes-lab \
 && /opt/hermes-lab/bin/pip install --no-cache-dir --disable-pip-version-check -c constraints.txt ".[${EXTRAS}]"

FROM ${BASE}
# git fetches skills from repositories. Sandboxes need nothing from the distribution: bubblewrap comes with the package.
ARG PACKAGES=git
RUN if [ -n "${PACKAGES}" ]; then \
      apt-get update && apt-get install -y --no-install-recommends ${PACKAGES} && rm -rf /var/lib/apt/lists/*; \
    fi
COPY --from=build /opt/hermes-lab /opt/hermes-lab
# Any user may be chosen with `user:`, so these are open to all; in a volume they take its owner.
RUN mkdir -p /app/data /app/skills /work && chmod 1777 /app /app/data /app/skills /work \
 && printf '#!/bin/sh\nexec /opt/hermes-lab/bin/python -P -m hermes_lab.runners.container cli "$@"\n' \
      > /usr/local/bin/hermes-cli \
 && chmod 755 /usr/local/bin/hermes-cli
ENV PATH=/opt/hermes-lab/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/app \
    HERMES_HOME=/app \
    HERMES_LAB_IMAGE=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
USER 1000:1000
WORKDIR /app
EXPOSE 8080
CMD ["python", "-P", "-m", "hermes_lab.runners.container", "agent"]
