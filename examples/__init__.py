"""One short file for each library to copy from: `python -m examples.NAME`, from a checkout."""
