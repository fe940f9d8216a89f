"""Tests with faults: killed servers, full disks, foreign locks and exhausted connections."""
