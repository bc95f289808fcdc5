"""The parts of the demonstration: each makes its data, fits, and returns a `Part` of the report."""
