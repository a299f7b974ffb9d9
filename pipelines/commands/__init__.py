"""The commands of `walkforward`, one module a kind; each imports what it runs only when it runs."""
