"""Series that are sums of exponentials Σ a_j z_j^t, which is what a Hankel matrix of low rank holds."""
