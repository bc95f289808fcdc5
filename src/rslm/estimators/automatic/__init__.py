"""Settings that are found from the data: by held-out observations, never by those that a score is computed on."""
