"""Token mixers: one file each, a table of them, and the parts they share."""
