"""The run configuration: its fields, the files it is read from, and which fields apply when."""
