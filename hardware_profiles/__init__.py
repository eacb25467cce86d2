"""One YAML per device or cluster, shipped as package data; README.md says what each field means."""
