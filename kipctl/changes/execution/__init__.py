"""A plan carried out: submitted, waited for, throttled, gone on with, taken back."""
