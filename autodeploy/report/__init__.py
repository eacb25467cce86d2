"""Results as people and programs read them: JSON documents, tables of 100 columns, CSV."""
