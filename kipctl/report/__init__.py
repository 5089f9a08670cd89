"""Result tables to terminal, plain text, JSON and CSV."""
