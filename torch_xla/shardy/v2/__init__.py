"""Programs with V2 shardings on their way out, with V1 on their way back."""
