"""Tests of responses and conversations."""
