"""The papers' protocols over simulated networks: run, watched, and drawn as the papers' figures."""
