"""The probe's producer: what is due, what may go out, and what became of it."""
