"""What safety the interventions of a task really give."""
