"""Training: the pure step, the two engines that run it, and the loop above them."""
