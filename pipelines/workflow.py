"""The plan as an Argo WorkflowTemplate, built with Hera (design page PIPELINE.md).

One static template: the number of folds is a parameter, so `argo submit --from wftmpl/walkforward -p folds=5`
needs nothing of this package. Loads Hera (over a second): import it only where the YAML is needed.
"""

from collections.abc import Mapping

from hera import workflows as w
from hera.workflows import models as m

from pipelines.parameters import RunParameters, parameter_name
from pipelines.placement import affinity_rule, gpu_placement, pod_patch, pod_security, storage, tolerations
from pipelines.plan import EVALUATE, FINISH, GATE, PREPARE, TRAIN, Stage
from pipelines.pods import stage_template
from pipelines.settings import ChartValues

# A fan-out whose prepare failed is Omitted, with no folds it is Skipped: the gate must report both.
GATE_DEPENDS = " || ".join(f"fold.{end}" for end in ("Succeeded", "Failed", "Errored", "Omitted", "Skipped"))
PARAMETER = "{{{{workflow.parameters.{}}}}}"
INPUT = "{{{{inputs.parameters.{}}}}}"
FOLD_IDX = PARAMETER.format("fold-idx")
# Without --run-id the id is new for every workflow: only a named run can be resumed by a second one.
RUN_ID = (
    "{{=workflow.parameters['run-id'] == '' ? workflow.parameters['git-branch'] + '-' + workflow.name"
    " : workflow.parameters['run-id']}}"
)
# Output parameters of the gate, which stay in the Workflow when its files cannot be reached.
GATE_OUTPUTS = {"summary": "summary.json", "report": "report.txt", "report-html": "report.html"}
# Options that Argo can pass as they are; the data source and the optional ones need an expression.
PLAIN_OPTIONS = ("preset", "folds", "n-steps", "n-backtests", "per-capacity", "checkpoint-every", "seed")
OPTIONAL_OPTIONS = ("config", "trades-data-dir", "instrument")
DATA_ARGUMENT = (
    "{{=workflow.parameters.market == 'files' ? '--mbp10-data-dir=' + workflow.parameters['mbp10-data-dir']"
    " : '--market=' + workflow.parameters.market}}"
)


def workflow_template(values: ChartValues) -> w.WorkflowTemplate:
    """The template of the chart: `values` are fixed in it, `RunParameters` stay parameters."""
    with w.WorkflowTemplate(
        name=values.template_name,
        namespace=values.namespace,
        labels={"app.kubernetes.io/name": "alpha-rl", "app.kubernetes.io/component": "walkforward"},
        annotations={
            "workflows.argoproj.io/description": "Train and judge every walk-forward fold, then the gate."
        },
        entrypoint="walkforward",
        on_exit=FINISH.name,
        arguments=_parameters(),
        service_account_name=values.service_account,
        security_context=pod_security(values),
        pod_spec_patch=pod_patch(values),
        tolerations=tolerations(values),
        volumes=storage(values),
        # Pods of a failed run stay: their logs are what the reader needs.
        pod_gc=m.PodGC(strategy="OnWorkflowSuccess", delete_delay_duration=values.pod_gc_delay),
        ttl_strategy=m.TTLStrategy(seconds_after_completion=values.kept_days * 86_400),
        workflow_metadata=m.WorkflowMetadata(labels={"app.kubernetes.io/name": "alpha-rl"}),
        metrics=_metrics() if values.prometheus else None,
    ) as template:
        prepare = _prepare(values)
        fold = _fold(values, _train(values), _evaluate(values))
        gate = _gate(values)
        _main(prepare, fold, gate)
        _finish(values)
    return template


def _parameters() -> list[w.Parameter]:
    schema = RunParameters.model_json_schema()["properties"]
    return [
        w.Parameter(
            name=parameter_name(name),
            value=str(field.default),
            description=field.description,
            enum=schema[name].get("enum"),
        )
        for name, field in RunParameters.model_fields.items()
    ]


def _main(prepare: w.Container, fold: w.DAG, gate: w.Container) -> None:
    """prepare -> fold x folds -> gate.

    failFast off: a failed fold stops no other. prepare is a target beside the leaf, or a gate that finds an
    earlier run's files would hide that prepare refused this one.
    """
    with w.DAG(name="walkforward", fail_fast=False, target="prepare gate"):
        w.Task(name="prepare", template=prepare, arguments={"run-id": RUN_ID})
        w.Task(
            name="fold",
            template=fold,
            depends="prepare.Succeeded",
            arguments={"run-id": RUN_ID, "fold-idx": "{{item}}"},
            with_sequence=m.Sequence(count=m.IntOrString(root=PARAMETER.format("folds"))),
            when=f"{FOLD_IDX} < 0 || {FOLD_IDX} == {{{{item}}}}",
        )
        w.Task(
            name="gate",
            template=gate,
            depends=GATE_DEPENDS,
            arguments={"run-id": RUN_ID},
            # One fold has no verdict. An index beyond the folds ran nothing: the gate must fail then.
            when=f"{FOLD_IDX} < 0 || {FOLD_IDX} >= {PARAMETER.format('folds')}",
        )


def _fold(values: ChartValues, train: w.Container, evaluate: w.Container) -> w.DAG:
    key = f"{values.template_name}-{INPUT.format('run-id')}-fold{INPUT.format('fold-idx')}"
    with w.DAG(
        name="fold",
        inputs=[w.Parameter(name="run-id"), w.Parameter(name="fold-idx")],
        synchronization=m.Synchronization(mutexes=[m.Mutex(name=key)]),
    ) as fold:
        own = {"run-id": INPUT.format("run-id"), "fold-idx": INPUT.format("fold-idx")}
        w.Task(name="train", template=train, arguments=own)
        w.Task(name="evaluate", template=evaluate, arguments=own, depends="train.Succeeded")
    return fold


def _prepare(values: ChartValues) -> w.Container:
    options = {name: PARAMETER.format(name) for name in PLAIN_OPTIONS} | {"cache-dir": values.cache_dir}
    return _stage(PREPARE, values, options, extra=[DATA_ARGUMENT, *map(_optional_argument, OPTIONAL_OPTIONS)])


def _train(values: ChartValues) -> w.Container:
    options = {name: PARAMETER.format(name) for name in ("n-steps", "checkpoint-every")}
    options["device"] = "cuda" if values.gpus else "cpu"
    template = _stage(TRAIN, values, options)
    template.active_deadline_seconds = values.train_deadline_s
    if values.avoid_last_node and isinstance(template.retry_strategy, w.RetryStrategy):
        template.retry_strategy.affinity = affinity_rule()
    # N/M in the UI from the first second; the trainer rewrites it through ARGO_PROGRESS_FILE.
    template.annotations = {"workflows.argoproj.io/progress": f"0/{PARAMETER.format('n-steps')}"}
    semaphore = m.ConfigMapKeySelector(name=values.semaphore_config_map, key=values.semaphore_key)
    template.synchronization = m.Synchronization(semaphores=[m.SemaphoreRef(config_map_key_ref=semaphore)])
    gpu_placement(template, values)
    return template


def _evaluate(values: ChartValues) -> w.Container:
    return _stage(EVALUATE, values, {"device": "cpu"})


def _gate(values: ChartValues) -> w.Container:
    """The verdict; its files are outputs also when the verdict is no pass, absent when the gate broke."""
    template = _stage(GATE, values, {})
    run_dir = f"{values.runs_dir}/{INPUT.format('run-id')}"
    template.outputs = [
        w.Parameter(name=name, value_from=m.ValueFrom(path=f"{run_dir}/{file}", default=""))
        for name, file in GATE_OUTPUTS.items()
    ]
    if values.artifact_repository:
        template.outputs.append(
            w.Artifact(
                # Argo takes no dot in the name; the key in the repository ends like the path.
                name="report",
                path=f"{run_dir}/report.html",
                archive=w.NoneArchiveStrategy(),
                optional=True,
            )
        )
    return template


def _finish(values: ChartValues) -> w.Container:
    """The exit handler: notes beside the run's files how the workflow ended."""
    options = {
        "workflow": "{{workflow.name}}",
        "status": "{{workflow.status}}",
        "failures": "{{workflow.failures}}",
    }
    run_dir = f"{values.runs_dir}/{RUN_ID}"
    return stage_template(FINISH, values, FINISH.argv({**options, "run-dir": run_dir}))


def _stage(
    stage: Stage, values: ChartValues, options: Mapping[str, str], extra: list[str] | None = None
) -> w.Container:
    run_dir = f"{values.runs_dir}/{INPUT.format('run-id')}"
    # The trainer takes an empty mirror for none.
    own = {"run-dir": run_dir, "fold-idx": INPUT.format("fold-idx"), "mirror": PARAMETER.format("mirror")}
    argv = [*stage.argv({**options, **own}), *(extra or [])]
    return stage_template(stage, values, argv)


def _optional_argument(option: str) -> str:
    """`--option=value`, or --preset again when the parameter is empty: Argo cannot leave an argument out."""
    value = f"workflow.parameters['{option}']"
    return f"{{{{={value} == '' ? '--preset=' + workflow.parameters.preset : '--{option}=' + {value}}}}}"


def _metrics() -> list[w.Gauge | w.Counter]:
    status = m.MetricLabel(key="status", value="{{workflow.status}}")
    return [
        w.Gauge(
            name="alpha_rl_walkforward_duration_seconds",
            help="Wall time of a walk-forward run",
            realtime=False,
            value="{{workflow.duration}}",
            labels=[status],
        ),
        w.Counter(
            name="alpha_rl_walkforward_total", help="Ended walk-forward runs", value="1", labels=[status]
        ),
    ]
