"""An S3 store for tests in a cluster: a server process in a pod, which checks keys, signatures and policies.

No DNS and no services: the pods reach it at its address, which a Secret holds together with the keys.
"""

import json
import shutil
import subprocess
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import boto3

from tests.cluster.harness import USER_ID, VALUES, Namespace, waited_for

SECRET, RESULTS, RECORDINGS, CLOSED = "store", "results", "recordings", "closed"
PORT = 5000
# What docs/mirror.md and docs/data-sources.md ask for, and no more.
POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {
            "Effect": "Allow",
            "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
            "Resource": f"arn:aws:s3:::{RESULTS}",
        },
        {
            "Effect": "Allow",
            "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"],
            "Resource": f"arn:aws:s3:::{RESULTS}/*",
        },
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": f"arn:aws:s3:::{RECORDINGS}"},
        {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{RECORDINGS}/*"},
    ],
}
EVERYTHING = {"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "*"}}


@dataclass
class Store:
    """A server whose objects live as long as its pod."""

    namespace: Namespace
    name: str
    keys: dict[str, str] = field(default_factory=dict)  # of the stages
    _admin: dict[str, str] = field(default_factory=dict)
    _forward: subprocess.Popen[str] | None = None
    _endpoint: str = ""

    def start(self) -> None:
        """Starts the pod; makes the buckets, and keys that from then on are checked."""
        self.namespace.apply(_pod(self.name))
        waited_for("S3 server", 90, self._is_ready)
        iam = self._connected("iam", {"aws_access_key_id": "a", "aws_secret_access_key": "a"})
        self._admin, self.keys = _user(iam, "admin", EVERYTHING), _user(iam, "stages", POLICY)
        enforce = urllib.request.Request(
            f"{self._endpoint}/moto-api/reset-auth",
            data=b"0",  # requests that are still not checked
            headers={"Content-Type": "text/plain"},
            method="POST",
        )
        urllib.request.urlopen(enforce, timeout=20).close()
        for bucket in (RESULTS, RECORDINGS, CLOSED):
            self.client.create_bucket(Bucket=bucket)

    @property
    def client(self) -> Any:
        """Of the test, which may do everything."""
        return self._connected("s3", self._admin)

    def give_keys(self, namespace: Namespace) -> None:
        """Writes the Secret that the stages of a namespace read."""
        address = self._status()["podIP"]
        settings = {
            "AWS_ACCESS_KEY_ID": self.keys["aws_access_key_id"],
            "AWS_SECRET_ACCESS_KEY": self.keys["aws_secret_access_key"],
            "AWS_ENDPOINT_URL": f"http://{address}:{PORT}",
            "AWS_REGION": "us-east-1",
            "AWS_MAX_ATTEMPTS": "1",  # by the client itself; the plan repeats the stage
        }
        namespace.apply(
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET}, "stringData": settings}
        )

    def freeze(self) -> None:
        """The server accepts connections and answers nothing."""
        self._signal("STOP")

    def thaw(self) -> None:
        """It goes on."""
        self._signal("CONT")

    def end(self) -> None:
        """Deletes the pod and all objects with it."""
        if self._forward is not None:
            self._forward.kill()
            self._forward.communicate()
        self.namespace.cluster.kubectl(
            *("-n", self.namespace.name, "delete", "pod", self.name, "--ignore-not-found", "--timeout=60s")
        )

    def objects(self, below: str) -> dict[str, bytes]:
        """Name below the key -> content; notes of writers left out."""
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=RESULTS, Prefix=f"{below}/")
        keys = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {
            key.removeprefix(f"{below}/"): self.client.get_object(Bucket=RESULTS, Key=key)["Body"].read()
            for key in keys
            if not key.endswith("/.writer.json")
        }

    def names(self, below: str) -> list[str]:
        """Names below the key."""
        found = self.client.list_objects_v2(Bucket=RESULTS, Prefix=f"{below}/").get("Contents", [])
        return [entry["Key"].removeprefix(f"{below}/") for entry in found]

    def _is_ready(self) -> bool:
        conditions = self._status().get("conditions", [])
        return any(found["type"] == "Ready" and found["status"] == "True" for found in conditions)

    def _status(self) -> dict[str, Any]:
        return self.namespace.cluster.get("-n", self.namespace.name, "pod", self.name)["status"]  # type: ignore[no-any-return]

    def _connected(self, service: str, keys: dict[str, str]) -> Any:
        """A client through a port of this machine, which is opened again where the API server closed it."""
        if self._forward is None or self._forward.poll() is not None:
            self._open_port()
        return boto3.client(service, endpoint_url=self._endpoint, region_name="us-east-1", **keys)

    def _open_port(self) -> None:
        self._forward = subprocess.Popen(
            ["kubectl", "-n", self.namespace.name, "port-forward", f"pod/{self.name}", f":{PORT}"],
            env=self.namespace.cluster.env, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._forward.stdout is not None
        said = self._forward.stdout.readline()
        assert said.startswith("Forwarding from 127.0.0.1:"), f"kubectl port-forward: {said}"
        self._endpoint = f"http://{said.split()[2]}"

    def _signal(self, name: str) -> None:
        words = ("/bin/sh", "-c", f"kill -{name} $(cat /tmp/pid)")
        self.namespace.cluster.kubectl("-n", self.namespace.name, "exec", self.name, "--", *words)


def emptied(directory: Path) -> None:
    """What is left of a directory of which the volume was lost."""
    for path in directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _user(iam: Any, name: str, policy: dict[str, Any]) -> dict[str, str]:
    iam.create_user(UserName=name)
    iam.put_user_policy(UserName=name, PolicyName=name, PolicyDocument=json.dumps(policy))
    made = iam.create_access_key(UserName=name)["AccessKey"]
    return {"aws_access_key_id": made["AccessKeyId"], "aws_secret_access_key": made["SecretAccessKey"]}


def _pod(name: str) -> dict[str, Any]:
    """The server beside which a shell waits, so that it can be stopped: the first process cannot."""
    server = f"python3 -m moto.server -H 0.0.0.0 -p {PORT} & echo $! > /tmp/pid; wait"
    container = {
        "name": "main",
        "image": f"{VALUES['image']}:dev",
        "imagePullPolicy": VALUES["image_pull_policy"],
        "command": ["/bin/sh", "-c", server],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
        "resources": {"requests": {"cpu": "50m", "memory": "256Mi"}, "limits": {"memory": "1Gi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "serviceAccountName": "walkforward",  # the default one comes a little after the namespace
            "automountServiceAccountToken": False,
            "terminationGracePeriodSeconds": 0,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER_ID,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [container],
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        },
    }
