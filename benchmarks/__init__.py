"""Speed of the trainer as a user sees it: the commands of a run, timed by their own log lines."""
