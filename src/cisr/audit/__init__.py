"""What safety interventions really give: proofs for finite tasks, attacks on all others."""
