"""The Helm chart: its values, schema and workflow template are written by this package."""
