"""Analytic cost models of one training step: pure numpy, no I/O, every function takes a batch."""
