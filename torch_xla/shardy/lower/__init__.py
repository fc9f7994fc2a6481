"""Programs with V2 shardings on their way out, and with V1 on their way back."""
