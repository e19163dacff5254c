"""Extends LocalStack for the conformance tests."""
