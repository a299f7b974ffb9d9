"""Order-book files to a feature cache, labels and walk-forward windows."""
