"""Sound as bytes and files: what hearing and speaking both need."""
