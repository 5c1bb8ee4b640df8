"""Committed outputs below one prefix: a folder, or a bucket of GCS or S3.

Enters: an operator's name, a label, an identity, and the bytes of an output. Leaves: a ``Record`` for each committed
output, made by one writer at a time; the lineage of outputs; revocations. Control files go
through ``objects``, the bytes of outputs through ``files``. A store knows nothing about steps.
"""
