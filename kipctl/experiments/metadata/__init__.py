"""`experiment metadata`: the claims of KIP-526, measured again."""
