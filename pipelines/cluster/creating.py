"""Creating a Workflow exactly once, though a server may restart between the request and its answer."""

import secrets
import time
from collections.abc import Callable
from typing import TypeVar

from pipelines.cluster.api import Body, TakenError, UnreachableError, WorkflowApi
from pipelines.cluster.snapshots import Alarm, Outage, Sleep

# Of the pauses of `Outage`: a little under two minutes, longer than a server takes to restart.
PATIENT_TRIES = 10
# Tells a workflow that this very command made from another one of the same name.
SUBMISSION = "alpha-rl/submission"
# Kubernetes' own letters and lengths for the end of a made name: no vowel makes a word of it.
LETTERS, NUM_LETTERS, LONGEST_PREFIX = "bcdfghjklmnpqrstvwxz2456789", 5, 58
Note = Callable[[str], None]
Answer = TypeVar("Answer")


def patiently(ask: Callable[[], Answer], note: Note, sleep: Sleep = time.sleep) -> Answer:
    """The answer, asked for again while the server cannot be reached; note: says so once.

    Raises UnreachableError where it stays away.
    """
    outage = Outage(Alarm(note), sleep)
    while True:
        try:
            answer = ask()
        except UnreachableError as error:
            if outage.failures + 1 >= PATIENT_TRIES:
                raise
            outage.failed(error)
        else:
            outage.passed()
            return answer


def create_once(api: WorkflowApi, body: Body, note: Note, sleep: Sleep = time.sleep) -> Body:
    """The workflow as the server made it, one however often it had to be asked.

    An answer that is lost does not say whether the request was carried out. So the name is made here and not
    by the server: asked again, it answers that the name is taken, by what the first request made.
    Raises TakenError where another workflow has the name, UnreachableError where the server stays away.
    """
    sent, tries = _named(body), 0

    def ask() -> Body:
        nonlocal tries
        tries += 1
        try:
            return api.create_workflow(sent)
        except TakenError:
            if tries == 1:
                raise
            there = api.workflow(sent["metadata"]["name"])
            if _submission(there) != _submission(sent):
                raise
            return there

    return patiently(ask, note, sleep)


def _named(body: Body) -> Body:
    metadata = dict(body["metadata"])
    if "name" not in metadata:
        prefix = str(metadata.pop("generateName"))[:LONGEST_PREFIX]
        metadata["name"] = prefix + "".join(secrets.choice(LETTERS) for _ in range(NUM_LETTERS))
    annotations = {**(metadata.get("annotations") or {}), SUBMISSION: secrets.token_hex(8)}
    return {**body, "metadata": {**metadata, "annotations": annotations}}


def _submission(body: Body) -> str:
    return str((body["metadata"].get("annotations") or {}).get(SUBMISSION, ""))
