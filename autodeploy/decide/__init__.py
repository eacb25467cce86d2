"""What to run, how sure, and what to measure next: an error model of differences over the twin's predictions."""
