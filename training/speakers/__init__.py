"""How models/pocket-speakers is made of CAM++, and how CAM++ learns to hear voices in short and rough speech."""
