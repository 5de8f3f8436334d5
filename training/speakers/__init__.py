"""How models/pocket-speakers is made: the stem of the small hearing model, and a head that parts readers."""
