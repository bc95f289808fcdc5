"""Matrix completion, from entries alone or with features of rows and columns."""
