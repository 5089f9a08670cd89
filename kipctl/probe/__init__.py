"""The KIP-aware clients: the instrument that measures what a leader move costs."""
