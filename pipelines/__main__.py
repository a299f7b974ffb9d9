"""`python -m pipelines` is `walkforward`."""

import sys

from pipelines.cli import main

sys.exit(main())
