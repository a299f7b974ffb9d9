# One image for prepare, train, evaluate and gate. `images/build` builds it; docs/image.md explains the arguments.
# A Debian image with Python >= 3.11; pin it by digest where it comes from a registry.
ARG BASE_IMAGE=python:3.11-slim-bookworm

FROM ${BASE_IMAGE} AS build
# A folder of installed packages that every node mounts in its containers; empty: the packages are in the image.
ARG SITE_PACKAGES=
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore
# Without pip: the last stage can install nothing. Its own folder: the base's packages stay out of sight.
RUN ["python3", "-m", "venv", "--without-pip", "/opt/venv"]
COPY requirements/runtime.txt /build/
# Secrets of the build machine (pip's settings, a certificate authority) are mounted and never reach a layer.
RUN --mount=type=secret,id=pip.conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca.crt,target=/run/secrets/ca.crt \
    set -eu; \
    if [ -n "$SITE_PACKAGES" ]; then \
        echo "$SITE_PACKAGES" > "$(/opt/venv/bin/python -c 'import site; print(site.getsitepackages()[0])')/mounted.pth"; \
        exit 0; \
    fi; \
    if ! python3 -m pip --version > /dev/null 2>&1; then \
        apt-get update -q; \
        DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends python3-pip; \
    fi; \
    if [ -f /run/secrets/ca.crt ]; then export PIP_CERT=/run/secrets/ca.crt; fi; \
    python3 -m pip --python /opt/venv/bin/python install --no-compile --only-binary :all: --require-hashes \
        --requirement /build/runtime.txt
COPY trainer /app/trainer
COPY pipelines /app/pipelines
# The root is read-only in the pods, and an image's file times may change: byte code that is never checked.
RUN ["python3", "-m", "compileall", "-q", "-j", "0", "--invalidation-mode", "unchecked-hash", "/opt/venv", "/app"]

FROM ${BASE_IMAGE}
# Triton compiles its launchers at run time with a C compiler and Python's headers; none: an image without GPU.
ARG COMPILER=gcc
RUN set -eu; \
    packages=; \
    [ -f /etc/ssl/certs/ca-certificates.crt ] || packages="ca-certificates"; \
    if [ "$COMPILER" != none ]; then \
        packages="$packages $COMPILER libc6-dev"; \
        header="$(python3 -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h"; \
        [ -f "$header" ] || packages="$packages libpython3-dev"; \
    fi; \
    if [ -n "$packages" ]; then \
        apt-get update -q; \
        DEBIAN_FRONTEND=noninteractive apt-get install -yq --no-install-recommends $packages; \
        rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/apt /var/log/dpkg.log; \
    fi; \
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +; \
    echo 'alpha-rl:x:10001:10001::/tmp:/usr/sbin/nologin' >> /etc/passwd; \
    echo 'alpha-rl:x:10001:' >> /etc/group
COPY --from=build /opt/venv /opt/venv
COPY --from=build /app /app
# The commit of the code: in the name of every run and in its metrics.
ARG CODE_SHA
RUN ["/bin/sh", "-c", "test -n \"$CODE_SHA\" || { echo 'give --build-arg CODE_SHA=<commit>' >&2; exit 1; }"]
ENV CODE_SHA=${CODE_SHA} \
    PATH=/opt/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    PYTHONPATH=/app \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
LABEL org.opencontainers.image.title="alpha-rl" \
      org.opencontainers.image.description="Walk-forward training and judging of an order-book agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.revision="${CODE_SHA}"
WORKDIR /app
USER 10001:10001
ENTRYPOINT ["python", "-m", "trainer"]
