"""Methods of the study `tasks`."""
