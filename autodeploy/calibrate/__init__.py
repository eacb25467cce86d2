"""Measurements in, a fitted hardware profile out."""

from autodeploy.calibrate.read import read_measurements
from autodeploy.calibrate.run import Calibration, Runs, calibrate

__all__ = ["Calibration", "Runs", "calibrate", "read_measurements"]
