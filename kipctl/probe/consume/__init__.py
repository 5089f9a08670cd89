"""The probe's consumer: where it reads, from which replica, and what it got."""
