"""What an experiment is made of: steps with typed fields, artifacts, resources, and the experiment itself.

Enters: what somebody writes in an experiment file. Leaves: an ``Experiment`` whose steps each have an identity, the
digest of operator, version, fields and inputs. Building one reads nothing and writes nothing; bad fields are refused
where they are written.
"""
