"""Predicts what a server does, from one number: its CPU per request."""
