"""Linear algebra: factors of low rank, QR of tall matrices in blocks, largest singular values."""
