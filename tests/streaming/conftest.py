"""Settings of the hearing tests."""

from hypothesis import settings

# Examples run real models on shared cores: their time says nothing about their correctness.
settings.register_profile("hearing", deadline=None)
settings.load_profile("hearing")
