"""Which cluster, namespace and credentials: flag, then environment, then kubeconfig, then the pod's own.

The flags and variables are the argo command's, so that a shell set up for it works here too. A token is taken
from ARGO_TOKEN only: arguments are visible to every process of the machine. Loads no client library before
`connect`.
"""

import os
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import cappa
from cappa import Arg

from pipelines.cluster.api import LABEL_VALUE, WorkflowApi
from trainer.errors import InputError

if TYPE_CHECKING:
    from pipelines.cluster.transport import Transport

GROUP = cappa.Group(10, "Connection")
TRUE_WORDS = ("1", "t", "true", "yes")
FALSE_WORDS = ("", "0", "f", "false", "no")


@dataclass(frozen=True)
class ConnectionOptions:
    """Options that every cluster command takes; None or False where not given."""

    namespace: Annotated[
        str | None, Arg(short="-n", long=True, group=GROUP, help="Namespace of the workflows.")
    ] = None
    kubeconfig: Annotated[Path | None, Arg(long=True, group=GROUP, help="Kubeconfig file.")] = None
    context: Annotated[str | None, Arg(long=True, group=GROUP, help="Context of the kubeconfig.")] = None
    argo_server: Annotated[
        str | None,
        Arg(short="-s", long=True, group=GROUP, help="host:port of an Argo server to ask instead."),
    ] = None
    argo_base_href: Annotated[
        str | None, Arg(long=True, group=GROUP, help="Path before those of the Argo server.")
    ] = None
    secure: Annotated[
        bool, Arg(short="-e", long=True, group=GROUP, help="The Argo server speaks TLS (the default).")
    ] = False
    insecure: Annotated[bool, Arg(long=True, group=GROUP, help="The Argo server speaks plain HTTP.")] = False
    insecure_skip_verify: Annotated[
        bool, Arg(short="-k", long=True, group=GROUP, help="Do not check the Argo server's certificate.")
    ] = False
    instance_id: Annotated[
        str | None,
        Arg(long="--instanceid", group=GROUP, help="instanceID of the controller, where it has one."),
    ] = None


def repeated(options: ConnectionOptions) -> str:
    """The flags that were given, without the namespace, as words to type again: ` --context prod`."""
    words = [
        *(("--kubeconfig", str(options.kubeconfig)) if options.kubeconfig else ()),
        *(("--context", options.context) if options.context else ()),
        *(("--argo-server", options.argo_server) if options.argo_server else ()),
        *(("--argo-base-href", options.argo_base_href) if options.argo_base_href else ()),
        *(("--secure",) if options.secure else ()),
        *(("--insecure",) if options.insecure else ()),
        *(("--insecure-skip-verify",) if options.insecure_skip_verify else ()),
        *(("--instanceid", options.instance_id) if options.instance_id else ()),
    ]
    return "".join(f" {shlex.quote(word)}" for word in words)


@dataclass(frozen=True)
class Server:
    """An Argo server: `host:port`, prefix of its paths, TLS, whether its certificate is checked."""

    host: str
    base_href: str
    secure: bool
    verify: bool

    @property
    def url(self) -> str:
        """The address without credentials: it never has any."""
        base = self.base_href.strip("/")
        return f"{'https' if self.secure else 'http'}://{self.host}" + (f"/{base}" if base else "")


@dataclass(frozen=True)
class Target:
    """Where to connect, before anything is read or asked.

    namespace: empty where neither flag nor variable gives it. server: None for the Kubernetes API.
    kubeconfig: files of the flag or of KUBECONFIG, empty for the usual place; given: the flag named it.
    instance_id: of the controller that is meant, empty for one without.
    """

    namespace: str
    namespace_from: str
    server: Server | None
    token: str
    kubeconfig: tuple[str, ...]
    given: bool
    context: str | None
    instance_id: str = ""

    def __repr__(self) -> str:
        return f"Target({self.namespace!r}, {self.server!r}, {self.kubeconfig!r}, {self.context!r})"


def resolve(options: ConnectionOptions, environ: Mapping[str, str] | None = None) -> Target:
    """Flags over environment; InputError for a value that cannot be used. Reads no file."""
    env = os.environ if environ is None else environ
    namespace, source = options.namespace or "", "--namespace"
    if not namespace:
        namespace, source = env.get("ARGO_NAMESPACE", ""), "ARGO_NAMESPACE"
    files = (
        (str(options.kubeconfig),)
        if options.kubeconfig is not None
        else tuple(part for part in env.get("KUBECONFIG", "").split(os.pathsep) if part)
    )
    server = _server(options, env)
    return Target(
        namespace=namespace,
        namespace_from=source if namespace else "",
        server=server,
        token=env.get("ARGO_TOKEN", ""),
        kubeconfig=files,
        given=options.kubeconfig is not None,
        context=options.context,
        instance_id=_instance_id(options, env, server),
    )


def _instance_id(options: ConnectionOptions, env: Mapping[str, str], server: Server | None) -> str:
    source = "--instanceid" if options.instance_id else "ARGO_INSTANCEID"
    given = options.instance_id or env.get("ARGO_INSTANCEID", "")
    if given and not re.fullmatch(LABEL_VALUE, given):
        raise InputError(f"{given!r} cannot be an instance id", where=source, do="give the controller's own")
    if given and server is not None:
        do = "an Argo server has its own: leave it out"
        raise InputError("does not go together with an Argo server", where=source, do=do)
    return given


def _server(options: ConnectionOptions, env: Mapping[str, str]) -> Server | None:
    source = "--argo-server" if options.argo_server else "ARGO_SERVER"
    host = options.argo_server or env.get("ARGO_SERVER", "")
    if not host:
        return None
    name, colon, port = host.rpartition(":")
    if not colon or not name or not port.isdecimal() or "/" in host or "@" in host:
        do = "write host:port; --insecure for plain HTTP, --argo-base-href for a path"
        raise InputError("not the address of an Argo server", where=source, do=do)
    if options.secure and options.insecure:
        raise InputError("--secure and --insecure are both given", where="options", do="give one of them")
    secure = options.secure or (not options.insecure and _flag(env, "ARGO_SECURE", True))
    skip = options.insecure_skip_verify or _flag(env, "ARGO_INSECURE_SKIP_VERIFY", False)
    base_href = options.argo_base_href or env.get("ARGO_BASE_HREF", "")
    return Server(host, base_href, secure, not skip)


def _flag(env: Mapping[str, str], name: str, default: bool) -> bool:
    if name not in env:
        return default
    word = env[name].strip().lower()
    if word not in TRUE_WORDS + FALSE_WORDS:
        raise InputError(f"{word!r} is neither true nor false", where=name, do="set it to true or false")
    return word in TRUE_WORDS


def connect(options: ConnectionOptions) -> WorkflowApi:
    """The cluster that the options, environment and kubeconfig name; nothing is asked of it yet.

    Raises InputError where they name none or cannot be used.
    """
    target = resolve(options)
    transport, namespace = transport_to(target)
    if target.server is None:
        from pipelines.cluster.kube import KubeApi

        return KubeApi(transport, namespace, target.instance_id)
    from pipelines.cluster.server import ServerApi

    return ServerApi(transport, namespace)


def transport_to(target: Target) -> "tuple[Transport, str]":
    """Requests to the target's server, and the namespace that commands are about."""
    from pipelines.cluster.kubeconfig import argo_transport, kube_transport

    if target.server is None:
        transport, found = kube_transport(target)
    else:
        transport, found = argo_transport(target, target.server)
    return transport, target.namespace or found
