"""How clients prove who they are, and whom they trust: TLS and SASL, from Java's properties."""
