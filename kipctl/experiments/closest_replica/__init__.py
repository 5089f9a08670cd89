"""KIP-392's claims: what reading in one's own rack saves, and what it costs."""
