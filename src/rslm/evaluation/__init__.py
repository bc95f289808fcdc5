"""The objective at a point, and the sums over its dual variables."""
