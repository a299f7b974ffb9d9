"""The way to the cluster: credentials, namespace, server and its clock."""

import re
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cluster.connection import ConnectionOptions, Target, resolve, transport_to
from pipelines.cluster.doctor.reader import ApiReader, ArgoServerReader
from pipelines.cluster.doctor.result import Result, error, ok, warning

if TYPE_CHECKING:
    from pipelines.cluster.transport import Transport

OLDEST_KUBERNETES = (1, 28)
# Objects' ages, tokens and signatures of requests go wrong well above this.
SKEW_S = 30.0


class Connection:
    """What the options lead to: a reader, and the namespace that commands are about."""

    def __init__(self, options: ConnectionOptions) -> None:
        self.target: Target = resolve(options)
        transport, self.namespace = transport_to(self.target)
        self.transport: Transport = transport
        kind = ApiReader if self.target.server is None else ArgoServerReader
        self.reader: ApiReader | ArgoServerReader = kind(transport, self.namespace)

    def credentials(self) -> Iterator[Result]:
        """Where the credentials come from, and that only their owner can read them."""
        from pipelines.cluster.kubeconfig import files_of

        origin = self.transport.origin
        yield ok(f"credentials of {origin.credentials or 'nobody'}")
        yield ok(f"namespace {self.namespace} ({self._namespace_from()})")
        for file in files_of(self.target):
            yield from file_mode(Path(file))

    def _namespace_from(self) -> str:
        if self.target.namespace_from:
            return self.target.namespace_from
        if self.namespace == "default":
            return "neither --namespace, ARGO_NAMESPACE nor the context names another"
        return "of the context"

    def server(self) -> Iterator[Result]:
        """The server answers, and how old it is."""
        address = self.transport.origin.address
        if isinstance(self.reader, ArgoServerReader):
            yield ok(f"Argo server {self.reader.server('version').get('version', '?')} at {address}")
            managed = self.reader.server("info").get("managedNamespace")
            if managed and managed != self.namespace:
                yield error(f"the Argo server shows namespace {managed} only", f"use -n {managed}")
        else:
            yield kubernetes_version(self.reader.get("/version").get("gitVersion", ""), address)

    def clock(self) -> Iterator[Result]:
        """The server's clock against this machine's."""
        before = time.time()
        date = self.reader.date()
        yield from skew(date, (before + time.time()) / 2)


def kubernetes_version(text: str, address: str) -> Result:
    """Whether the server is new enough."""
    found = re.match(r"v?(\d+)\.(\d+)", text)
    if found and (int(found[1]), int(found[2])) < OLDEST_KUBERNETES:
        oldest = ".".join(map(str, OLDEST_KUBERNETES))
        return warning(f"Kubernetes {text} at {address} is older than {oldest}", "use a newer cluster")
    return ok(f"Kubernetes {text} at {address}")


def skew(date: str, now: float) -> Iterator[Result]:
    """date: an HTTP date, whole seconds; now: this machine's time, Unix seconds."""
    try:
        # The header cuts the fraction off: half a second in the middle.
        ahead = parsedate_to_datetime(date).timestamp() + 0.5 - now
    except ValueError:
        yield warning("the server tells no time", "check this machine's clock by hand")
        return
    if abs(ahead) > SKEW_S:
        side = "ahead of" if ahead > 0 else "behind"
        yield warning(
            f"the server's clock is {abs(ahead):.0f} s {side} this machine's",
            "set the clock (NTP): ages, tokens and log times are wrong by that much",
        )
    else:
        yield ok(f"clocks agree within {max(1, round(abs(ahead)))} s")


def file_mode(file: Path) -> Iterator[Result]:
    """A kubeconfig that others can read is a password that others can read."""
    if file.exists() and file.stat().st_mode & 0o077:
        yield warning(f"{file} can be read by other users of this machine", f"chmod 600 {file}")
