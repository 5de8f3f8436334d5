"""How the embedded models were made: data, recipes, evaluation. Needs torch; nothing at run time imports it."""
