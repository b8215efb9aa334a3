"""Search and exact play, compiled: positions of single games come in, values and cells go out."""
