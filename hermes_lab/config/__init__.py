"""The run configuration: fields, files, and what applies to what."""
