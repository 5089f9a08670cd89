"""The claims of the KIPs, measured again: arms compared by runs that are repeated in turn."""
