"""The ids and the surface that every text vocabulary has."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
NUM_SPECIAL = 4

# What an unknown id is decoded to. No normalization changes this character or splits it, and it is
# no letter: text that holds it is encoded to what decodes to it again.
UNKNOWN_SURFACE = "\u25a1"
