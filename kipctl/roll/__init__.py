"""A roll: brokers restarted one after the other, with their leaders off them meanwhile."""
