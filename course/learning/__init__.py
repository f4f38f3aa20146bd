"""Loop C, where parameters change: the base policy is built here, and trained from rewards."""
