"""`walkforward submit`: a run on a cluster, from the template that is installed there."""

import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions
from trainer.arguments import whole
from trainer.errors import ExitCode, InputError

if TYPE_CHECKING:
    from pipelines.cluster.submission import Submission

SUBMIT_EXAMPLES = """Run the plan on a cluster: a Workflow of the installed WorkflowTemplate.

Examples:

    walkforward submit --folds 3 --market planted --watch

    walkforward submit --mbp10-data-dir s3://bucket/es/ --git-branch v1.2 -n trading

    walkforward submit -p folds=3 -p market=planted --dry-run

The same line again resumes: the run id is a key of the parameters, and of the code here unless --git-branch
is a commit. --run-id names one.

Exit codes: 0 submitted, 2 bad input, 75 cannot reach the cluster now; with --watch the verdict's, as of
`walkforward run`, and 1 for a stage that failed in another way.
"""
RUN = cappa.Group(1, "Run")
OUTPUT = cappa.Group(2, "Output")


@dataclass(frozen=True)
class SubmitOptions:
    """What `walkforward submit` and `hera submit` have in common; the group Run has every parameter."""

    git_branch: Annotated[str | None, Arg(long=True, group=RUN, help="Tag of the image with the code.")] = (
        None
    )
    folds: Annotated[int | None, whole("Walk-forward folds.", group=RUN)] = None
    fold_idx: Annotated[int | None, whole("That fold only, no verdict.", group=RUN)] = None
    n_steps: Annotated[int | None, whole("Training steps of a fold.", group=RUN)] = None
    n_backtests: Annotated[int | None, whole("Lanes: replays in parallel.", group=RUN)] = None
    per_capacity: Annotated[int | None, whole("Transitions the replay keeps.", group=RUN)] = None
    checkpoint_every: Annotated[int | None, whole("Steps between checkpoints.", group=RUN)] = None
    seed: Annotated[int | None, whole("Of weights, sampling and anchors.", group=RUN)] = None
    preset: Annotated[str | None, Arg(long=True, group=RUN, help="Starting point: default, demo, seed.")] = (
        None
    )
    market: Annotated[
        str | None, Arg(long=True, group=RUN, help="files, or a synthetic market: planted, martingale.")
    ] = None
    mbp10_data_dir: Annotated[
        str | None,
        Arg(long=["--data", "--mbp10-data-dir"], group=RUN, help="mbp-10 path in the pod, or s3:// URL."),
    ] = None
    trades_data_dir: Annotated[str | None, Arg(long=True, group=RUN, help="Separate trades, likewise.")] = (
        None
    )
    config: Annotated[str | None, Arg(long=True, group=RUN, help="Config file, a path in the pod.")] = None
    instrument: Annotated[str | None, Arg(long=True, group=RUN, help="Instrument preset.")] = None
    mirror: Annotated[str | None, Arg(long=True, group=RUN, help="s3://bucket/prefix for results.")] = None
    gpu_pool: Annotated[str | None, Arg(long=True, group=RUN, help="Node pool of the training pods.")] = None
    run_id: Annotated[str | None, Arg(long=True, group=RUN, help="Name of the run; the same resumes.")] = None
    parameter: Annotated[
        list[str], Arg(short="-p", long=True, group=RUN, help="name=value of a parameter; repeat it.")
    ] = field(default_factory=list)
    name: Annotated[
        str | None, Arg(long=True, group=OUTPUT, help="Name of the Workflow; made unless given.")
    ] = None
    labels: Annotated[str, Arg(short="-l", long=True, group=OUTPUT, help="Labels: a=b,c=d.")] = ""
    dry_run: Annotated[bool, Arg(long=True, group=OUTPUT, help="Print the Workflow; ask no cluster.")] = False
    server_dry_run: Annotated[
        bool, Arg(long=True, group=OUTPUT, help="Let the server check it; store nothing.")
    ] = False
    output: Annotated[
        Literal["name", "yaml", "json"] | None,
        Arg(short="-o", long=True, group=OUTPUT, help="Form of the result."),
    ] = None
    watch: Annotated[
        bool, Arg(short="-w", long=True, group=OUTPUT, help="Follow until the end; exit with the verdict.")
    ] = False

    def submit(self, template: str, connection: ConnectionOptions) -> int:
        """Do what was asked, with this template."""
        from pipelines.cluster import submit
        from pipelines.cluster.connection import connect, repeated, resolve

        if self.dry_run + self.server_dry_run + self.watch > 1:
            do = "give one of --dry-run, --server-dry-run and --watch"
            raise InputError("these options exclude each other", where="options", do=do)
        target = resolve(connection)
        submission = self._submission(template, target.instance_id)
        shown = submit.Shown(sys.stdout, sys.stderr, self.output, repeated(connection))
        if self.dry_run:
            return submit.dry_run(submission, target.namespace, shown)
        api = connect(connection)
        name = submit.submit(api, submission, shown, server_dry_run=self.server_dry_run)
        return submit.watched(api, name, shown) if self.watch else int(ExitCode.DONE)

    def _submission(self, template: str, instance_id: str) -> "Submission":
        from pipelines.cluster.api import INSTANCE_LABEL
        from pipelines.cluster.submission import Submission, check_names
        from pipelines.parameters import RunParameters, parameters_given

        flags = {name: getattr(self, name) for name in RunParameters.model_fields}
        sent, other = parameters_given(flags, self.parameter)
        labels = check_names(self.name or "", self.labels)
        labels |= {INSTANCE_LABEL: instance_id} if instance_id else {}
        return Submission(template, sent, other, self.name or "", labels)


@cappa.command(name="submit", help="Run the plan on a cluster.", description=SUBMIT_EXAMPLES)
@dataclass(frozen=True)
class Submit:
    options: Destructured[SubmitOptions]
    connection: Destructured[ConnectionOptions]
    template: Annotated[str, Arg(long=True, group=OUTPUT, help="The installed WorkflowTemplate.")] = (
        "walkforward"
    )
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        return self.options.submit(self.template, self.connection)


@cappa.command(name="submit", help="Run a WorkflowTemplate on a cluster.", description=SUBMIT_EXAMPLES)
@dataclass(frozen=True)
class HeraSubmit:
    """`hera submit TEMPLATE`."""

    options: Destructured[SubmitOptions]
    connection: Destructured[ConnectionOptions]
    template: Annotated[str, Arg(help="The installed WorkflowTemplate.")] = "walkforward"
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        return self.options.submit(self.template, self.connection)
