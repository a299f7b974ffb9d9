"""From kubeconfig, service account or ARGO_TOKEN to an authenticated transport.

Certificates, tokens, plugins and their refresh are the `kubernetes` package's; its request code is not used
(see `transport`).
"""

import logging
import os
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
import yaml
from kubernetes.client import Configuration
from kubernetes.client.rest import RESTClientObject
from kubernetes.config import ConfigException, list_kube_config_contexts, load_kube_config
from kubernetes.config import load_incluster_config as load_pod_account

from pipelines.cluster.connection import Server, Target
from pipelines.cluster.failures import Origin
from pipelines.cluster.transport import KEEP_ALIVE, NUM_CONNECTIONS, Transport
from trainer.errors import InputError

USUAL = "~/.kube/config"
ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
DEFAULT_NAMESPACE = "default"


@dataclass(frozen=True)
class Loaded:
    """What a kubeconfig or a pod's account gives. source: where from, for messages."""

    configuration: Configuration
    namespace: str
    source: str


def kube_transport(target: Target) -> tuple[Transport, str]:
    """Requests to the Kubernetes API, and the context's or the pod's namespace."""
    loaded = load(target)
    configuration = loaded.configuration
    configuration.socket_options = KEEP_ALIVE
    configuration.connection_pool_maxsize = NUM_CONNECTIONS
    if not configuration.verify_ssl:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # the kubeconfig asks for it
    _check_certificates(loaded)
    pool = RESTClientObject(configuration).pool_manager
    origin = Origin(_without_user(configuration.host), loaded.source)
    return Transport(pool, configuration.host, origin, _authorization(configuration)), loaded.namespace


def _check_certificates(loaded: Loaded) -> None:
    """InputError for a file that is no certificate or key: a request would blame the server."""
    found, context = loaded.configuration, ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if found.ssl_ca_cert:
            context.load_verify_locations(found.ssl_ca_cert)
        if found.cert_file:
            context.load_cert_chain(found.cert_file, found.key_file)
    except (OSError, ValueError) as error:
        do = "renew the kubeconfig"
        raise InputError("a certificate or key of it cannot be used", where=loaded.source, do=do) from error


def argo_transport(target: Target, server: Server) -> tuple[Transport, str]:
    """Requests to an Argo server; without ARGO_TOKEN the kubeconfig's token, as the argo command does."""
    namespace, source, authorization = DEFAULT_NAMESPACE, "", _nothing
    if target.token:
        # `argo auth token` prints it with its scheme, `kubectl create token` without.
        value = target.token if " " in target.token else f"Bearer {target.token}"
        source, authorization = "ARGO_TOKEN", lambda: value
    if not (target.token and target.namespace) and (files_of(target) or _in_pod()):
        loaded = load(target)
        namespace = loaded.namespace
        if not target.token:
            source, authorization = loaded.source, _authorization(loaded.configuration)
    return Transport(_pool(server), server.url, Origin(server.url, source, True), authorization), namespace


def _pool(server: Server) -> urllib3.PoolManager:
    """Connections to an Argo server, through the proxy that the environment names for it."""
    options: dict[str, Any] = {
        "cert_reqs": "CERT_REQUIRED" if server.verify else "CERT_NONE",
        "socket_options": KEEP_ALIVE,
        "maxsize": NUM_CONNECTIONS,
    }
    if not server.verify:
        urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)  # -k asks for it
    proxy = getproxies().get("https" if server.secure else "http")
    if proxy and not proxy_bypass(server.host):
        return urllib3.ProxyManager(proxy, **options)
    return urllib3.PoolManager(**options)


def load(target: Target) -> Loaded:
    """Kubeconfig where there is one, else the account of this pod; InputError for neither."""
    files = files_of(target)
    if files:
        return _from_files(files, target.context)
    if target.context is None and _in_pod():
        return _from_pod()
    named = ":".join(target.kubeconfig) or USUAL
    raise InputError(
        "no kubeconfig there, and this is no pod", where=named, do="give --kubeconfig FILE or set KUBECONFIG"
    )


def files_of(target: Target) -> list[str]:
    """Kubeconfig files that exist; InputError where the flag's own does not."""
    named = [str(Path(name).expanduser()) for name in target.kubeconfig or (USUAL,)]
    found = [name for name in named if Path(name).exists()]
    if target.given and not found:
        raise InputError("no such file", where=named[0], do="give --kubeconfig an existing file")
    return found


def _from_files(files: list[str], context: str | None) -> Loaded:
    for file in files:
        _check_file(file)
    joined = os.pathsep.join(files)
    where = ", ".join(files)
    try:
        contexts, current = list_kube_config_contexts(joined)
        chosen = current if context is None else _context(contexts, context, where)
        source = f"{where} (context {chosen['name']})"
        configuration = Configuration()
        with _logged() as complaints:
            load_kube_config(joined, context=chosen["name"], client_configuration=configuration)
    except InputError:
        raise
    except ConfigException as error:
        raise InputError(
            str(error), where=where, do="correct it, or give another with --kubeconfig"
        ) from error
    except Exception as error:  # a value of the wrong kind surfaces as any error of the library
        what = f"cannot be used ({type(error).__name__})"
        raise InputError(what, where=where, do="check it with kubectl config view") from error
    if complaints and not configuration.api_key and not configuration.cert_file:
        what = f"its credential plugin failed: {complaints[0]}"
        raise InputError(what, where=source, do="run the plugin's log-in again")
    namespace = (chosen.get("context") or {}).get("namespace") or DEFAULT_NAMESPACE
    return Loaded(configuration, namespace, source)


def _check_file(file: str) -> None:
    try:
        body = yaml.safe_load(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror}", where=file, do="check its permissions") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError("not YAML", where=file, do="correct it, or give another kubeconfig") from error
    if not isinstance(body, dict):
        raise InputError("not a kubeconfig", where=file, do="give a file that kubectl takes")


def _context(contexts: list[dict[str, Any]], name: str, where: str) -> dict[str, Any]:
    for found in contexts:
        if found["name"] == name:
            return found
    known = ", ".join(str(found["name"]) for found in contexts)
    raise InputError(f"no context {name}", where=where, do=f"use one of {known}")


def _from_pod() -> Loaded:
    configuration = Configuration()
    try:
        load_pod_account(client_configuration=configuration)
        namespace = (ACCOUNT / "namespace").read_text(encoding="utf-8").strip()
    except (ConfigException, OSError) as error:
        raise InputError(
            "the pod's service account cannot be used",
            where=str(ACCOUNT),
            do="mount it, or give --kubeconfig",
        ) from error
    return Loaded(configuration, namespace or DEFAULT_NAMESPACE, "this pod's service account")


def _in_pod() -> bool:
    return "KUBERNETES_SERVICE_HOST" in os.environ and (ACCOUNT / "token").exists()


def _authorization(configuration: Configuration) -> Callable[[], str]:
    """Reads the header's value anew each time: the library refreshes an expiring token when asked."""

    def value() -> str:
        setting: Any = configuration.auth_settings().get("BearerToken") or {}
        return str(setting.get("value") or "")

    return value


def _nothing() -> str:
    return ""


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


@contextmanager
def _logged() -> Iterator[list[str]]:
    """Errors that the library only logs, in place of their printing."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                lines.append(" ".join(record.getMessage().split())[:300])

    handler = Keep()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield lines
    finally:
        root.removeHandler(handler)
