"""The recipes, data makers and evaluations that the embedded models were made with. They need torch; nothing imports
them at run time."""
