"""Pure translation between the Host's wire generations and core's neutral Host values."""
