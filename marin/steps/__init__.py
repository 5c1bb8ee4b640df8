"""The parts of an experiment: steps with typed fields, artifacts, resources, and the experiment itself.

Input: an experiment file. Output: an ``Experiment`` whose steps each have an identity, the digest of operator, version,
fields and inputs. Building an experiment reads nothing and writes nothing. Bad fields are refused where they are
written.
"""
