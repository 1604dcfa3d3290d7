"""Scientific code in C++: simulations whose lines are filled in, built, run and compared."""
