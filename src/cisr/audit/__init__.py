"""What the interventions of a task really give: proofs where they are possible, attacks and bounds where not."""
