"""The recipes of the small voice's pronouncing dictionary, and of the little model that guesses what it lacks."""
