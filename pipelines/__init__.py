"""The pipeline around the trainer: the plan, its local runner and its Argo workflow. Imports no torch."""
