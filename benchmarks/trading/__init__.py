"""What an agent did on its test windows, as a trader looks at it."""
