"""The small control files of a store: atomic writes, exclusive creation, one listing, on every kind of store.

Enters: a store's prefix, names below it, bytes. Leaves: ``Objects``, one interface to a folder, to this process's
memory, to GCS and to S3. Claims, ends, acceptances and events go through here; the bytes of outputs go through
``store.files``.
"""
