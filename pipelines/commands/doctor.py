"""`walkforward doctor`: looks for what would stop a run on the cluster, and says what to do about it."""

import gc
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import cappa
from cappa import Arg, Destructured

from pipelines.cluster.connection import ConnectionOptions

DOCTOR_EXAMPLES = """Look for what would stop a run on the cluster. Reads only; changes nothing.

Examples:

    walkforward doctor

    walkforward doctor -n research -p folds=8 -p gpu-pool=training-h200

    walkforward doctor --values values.yaml --json

Exit codes: 0 all well, or warnings only; 2 an error.
"""


@cappa.command(name="doctor", help="Look for what would stop a run.", description=DOCTOR_EXAMPLES)
@dataclass(frozen=True)
class Doctor:
    connection: Destructured[ConnectionOptions]
    template: Annotated[str, Arg(long=True, help="Name of the WorkflowTemplate.")] = "walkforward"
    values: Annotated[
        Path | None, Arg(long=True, help="Chart values to compare with; those of the template unless given.")
    ] = None
    parameter: Annotated[
        list[str], Arg(short="-p", long=True, help="name=value, as a run would be submitted; repeat it.")
    ] = field(default_factory=list)
    json: Annotated[bool, Arg(long=True, help="Print the findings as JSON.")] = False
    debug: Annotated[bool, Arg(long=True, help="Show tracebacks.")] = False

    def execute(self) -> int:
        from pipelines.cluster.doctor.cluster import Asked
        from pipelines.cluster.doctor.examine import examine
        from pipelines.cluster.doctor.report import tell, tell_json
        from pipelines.parameters import parameters_of
        from pipelines.render import chart_values

        parameters = parameters_of(self.parameter)
        values = chart_values(self.values) if self.values else None
        asked = Asked(self.template, values, parameters)
        # Rendering makes a million small objects that all stay: collecting garbage meanwhile costs a third.
        gc.disable()
        try:
            findings = examine(self.connection, asked, raising=self.debug)
            return (tell_json if self.json else tell)(findings, sys.stdout)
        finally:
            gc.enable()
